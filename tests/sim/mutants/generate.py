#!/usr/bin/env python3
"""Writes the sources of the build with mutants: copies of the files that a mutant changes, and mutants.h.

  generate.py --out FOLDER     # writes the copies below FOLDER; a file that stays the same is not touched
  generate.py --list           # prints the files that are copied, one per line
  generate.py --check          # only: does every edit fit into the tree, in one place?

The tables are `mutations/*.txt`. An entry there is

    mutant skip_scrub
    promise 2
    also 1
    breaks the scrubber does not compare what it reads
    file actors/kv_worker/scrub.cc
    -    const bool ok = !checked || checked->ok[i];
    +    const bool ok = !checked || checked->ok[i] || mutated(Mutant::skip_scrub);

`promise` is the promise that the mutant breaks; `also` names others whose checks may report it. Lines after
`-` are the present text, which must occur exactly once in the file (white space and comments may differ);
lines after `+` replace it and ask `mutated` whether the mutant is switched on. A mutant may have several
edits, each with its `file`. Edits of one file are applied in the order of the tables, so a later one may
quote what an earlier one has written. An entry that begins with `always NAME` has no promise: its edits are
in effect in the whole build. `#` begins a comment.
"""
import argparse
import pathlib
import sys
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/mutation"))
import table  # noqa: E402

HEADER = "mutants.h"
NOTE = "// Written by tests/sim/mutants/generate.py; the table is tests/sim/mutants/mutations.\n"


class TableError(Exception):
    pass


@dataclass
class Edit:
    where: str  # file and line of the table
    file: str
    present: list = field(default_factory=list)
    mutated: list = field(default_factory=list)

    def apply(self, text):
        found = [match.span() for match in table.pattern_of("\n".join(self.present)).finditer(text)]
        if len(found) != 1:
            raise TableError(
                f"{self.where}: the text occurs {len(found)} times in {self.file}; expected once"
            )
        begin, end = found[0]
        return text[:begin] + "\n".join(self.mutated).strip() + text[end:]


@dataclass
class Entry:
    where: str
    name: str
    always: bool
    promise: int = 0
    also: list = field(default_factory=list)
    breaks: str = ""
    edits: list = field(default_factory=list)


def read(path):
    entries = []
    for number, line in enumerate(path.read_text().split("\n"), 1):
        where = f"{path.name}:{number}"
        word, _, rest = line.partition(" ")
        if not line.strip() or line.startswith("#"):
            continue
        if word in ("mutant", "always"):
            entries.append(Entry(where, rest.strip(), word == "always"))
        elif not entries:
            raise TableError(f"{where}: \"{word}\" comes before the first entry; expected `mutant NAME`")
        elif line[0] in "-+":
            if not entries[-1].edits:
                raise TableError(f"{where}: expected `file` before the edit")
            edit = entries[-1].edits[-1]
            (edit.present if line[0] == "-" else edit.mutated).append(line[1:])
        elif word == "file":
            entries[-1].edits.append(Edit(where, rest.strip()))
        elif word == "promise":
            entries[-1].promise = int(rest)
        elif word == "also":
            entries[-1].also = [int(number) for number in rest.split()]
        elif word == "breaks":
            entries[-1].breaks = rest.strip()
        else:
            raise TableError(f"{where}: expected mutant, always, promise, also, breaks, file, - or +")
    return entries


def check(entries):
    names = set()
    for entry in entries:
        if entry.name in names:
            raise TableError(f"{entry.where}: {entry.name} is there twice")
        names.add(entry.name)
        if not entry.edits or not all(any(edit.present) and edit.mutated for edit in entry.edits):
            raise TableError(f"{entry.where}: {entry.name}: expected edits with `file`, - and +")
        if entry.always:
            continue
        if not 1 <= entry.promise < 32 or not entry.breaks:
            raise TableError(f"{entry.where}: {entry.name}: expected `promise` (1..31) and `breaks`")
        if not any(f"Mutant::{entry.name}" in line for edit in entry.edits for line in edit.mutated):
            raise TableError(f"{entry.where}: no edit of {entry.name} asks mutated(Mutant::{entry.name})")


def header_of(entries):
    mutants = [entry for entry in entries if not entry.always]
    rows = "".join(
        f"    {{Mutant::{entry.name}, \"{entry.name}\", {entry.promise}, "
        f"{sum(1 << promise for promise in entry.also)}U,\n     \"{entry.breaks}\"}},\n"
        for entry in mutants
    )
    names = "".join(f"  {entry.name},\n" for entry in mutants)
    return f"""#pragma once
// The mutants of this build. One at a time can be switched on; block names can be cut to a few bits.
{NOTE}#include <cstdint>

namespace troupe {{

enum class Mutant : std::uint8_t {{
{names}  none
}};

namespace mutation {{
inline Mutant active = Mutant::none;  // set once, before anything runs
inline int name_bits = 256;           // bits of a block name that containers compare: 8..256
}}  // namespace mutation
inline bool mutated(Mutant mutant) {{ return mutation::active == mutant; }}
inline bool names_collide() {{ return mutation::name_bits < 256; }}

struct MutantRow {{
  Mutant mutant;
  const char* name;
  int promise;         // the promise that it breaks
  std::uint32_t also;  // set of other promises, by bit, through which it may be found
  const char* text;
}};
inline constexpr MutantRow mutant_table[] = {{
{rows}}};

}}  // namespace troupe
"""


def with_include(text):
    include = f"{NOTE}#include \"{HEADER}\"\n"
    once = "#pragma once\n"
    return text.replace(once, once + include, 1) if text.startswith(once) else include + text


def sources_of(entries):
    """Returns the text of each file that an edit changes, by its path in the tree."""
    texts = {}
    for entry in entries:
        for edit in entry.edits:
            path = ROOT / edit.file
            if edit.file not in texts and not path.is_file():
                raise TableError(f"{edit.where}: there is no file {edit.file}")
            texts[edit.file] = edit.apply(texts.get(edit.file) or path.read_text())
    return {name: with_include(text) for name, text in texts.items()}


def write_if_new(path, text):
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    entries = [entry for path in sorted((HERE / "mutations").glob("*.txt")) for entry in read(path)]
    check(entries)
    if options.list:
        print("\n".join(sorted({edit.file for entry in entries for edit in entry.edits})))
        return
    sources = sources_of(entries)
    if options.check:
        edits = sum(len(entry.edits) for entry in entries)
        print(f"{len(entries)} entries with {edits} edits fit into {len(sources)} files")
    if options.out:
        write_if_new(options.out / HEADER, header_of(entries))
        for name, text in sources.items():
            write_if_new(options.out / name, text)


try:
    main()
except TableError as error:
    sys.exit(str(error))
