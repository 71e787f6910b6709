#!/usr/bin/env python3
"""Makes mutants by rule at random locations and prints them as a table for run.py. No human choice is
involved.

  slips.py --seed 1 --count 400 > pool.txt       # all components, each folder in proportion to its lines
  slips.py --seed 2 --count 110 --of pool.txt --without seen.txt > fresh.txt     # from a pool built already

A mutant is in the first line at or after its location that allows one. The rules: a bound off by one, a
condition reversed, "and" for "or", an operation undone, a statement or an early return left out, a
constant one larger. Mutants are inside functions, so that a whole pool can be built together
(switched.py).

Not mutated: checks of internal state, reservations of memory, and code with no visible effect (UNSEEN). The
count of locations skipped for that reason is printed. Headers that more than --includers files include are
skipped as well, because each would rebuild everything.
"""
import argparse
import collections
import pathlib
import random
import re
import sys

import draw
import switched
import table

QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'|//.*')
LEFT_OUT = re.compile(
    r"TROUPE_CHECK|static_assert|\bassert\(|reserve\(|shrink_to_fit|constexpr|\boperator\b|"
    r"^\s*(using|typedef|case) |R\"\(|\\$|#"
)
# Kinds of code in which a mutation breaks no promise, or is never executed.
UNSEEN = {
    "hint": re.compile(
        r"\b(mallopt|madvise|posix_fadvise|readahead|__builtin_prefetch|Prefetch|expect_\w*reads|"
        r"pthread_setname_np)\("
    ),
    "debug log message": re.compile(r"LogLevel::debug"),
    "mixer's constant": re.compile(r"0x[0-9a-fA-F]{15,}"),
    "compile time": re.compile(r"\b(static_assert|consteval)\b"),
}
DURATION = re.compile(r"(seconds|minutes|hours)[({]$")  # the exact length of a time limit
DESCRIPTOR = re.compile(r"(descriptor|socket|\bfd)[\w.]* (<|>=) 0")  # descriptor 0 is the standard input
GUARD = re.compile(r"^\s+if \(.*\) (return\b.*|continue|break);$")
CALL = re.compile(r"^\s+(?!return\b|if\b|for\b|while\b|throw\b|delete\b|switch\b)[\w.\->\[\]:]+\(.*\);$")
SET = re.compile(r"^\s+[\w.\->\[\]]+ (=|\+=|-=|\|=) .*;$|^\s+(\+\+|--)[\w.\->\[\]]+;$")
SWAPS = [
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" == ", " != "),
    (" != ", " == "),
    (" && ", " || "),
    (" || ", " && "),
    (" + 1", ""),
    (" - 1", ""),
    (" - ", " + "),
    (" += ", " -= "),
    ("std::min", "std::max"),
    ("std::max", "std::min"),
    (".front()", ".back()"),
    (".back()", ".front()"),
    ("lower_bound(", "upper_bound("),
    ("upper_bound(", "lower_bound("),
    ("(!", "("),
    (" !", " "),
    ("true", "false"),
    ("false", "true"),
]
NUMBER = re.compile(r"(?<=[ (,])(\d+)(?=[;,) ])")
WORD = re.compile(r"\w")


def masked(line):
    """Returns the line with literals and comments masked; every character keeps its position."""
    return QUOTED.sub(lambda match: "\"" * len(match[0]), line)


def at_words_end(line, begin, end):
    """Returns whether the match ends at word boundaries: `- 1` is not in `- 10`, nor `true` in `is_true`."""
    inside = line[begin:end]
    return not (
        WORD.match(inside[-1])
        and WORD.match(line[end : end + 1])
        or WORD.match(inside[0])
        and begin
        and WORD.match(line[begin - 1])
    )


def slips_of(line):
    """Returns pairs (kind, mutated line); an empty text removes the line."""
    shown, found = masked(line), []
    for old, new in SWAPS:
        if old == " += " and '"' in line:
            continue  # appends to a text
        for match in re.finditer(re.escape(old), shown):
            if at_words_end(shown, *match.span()) and shown[match.end() : match.end() + 1] not in (".", "="):
                found.append((old.strip(), line[: match.start()] + new + line[match.end() :]))
    if DESCRIPTOR.search(shown):
        found = [(kind, text) for kind, text in found if kind not in ("<", ">=")]
    for match in NUMBER.finditer(shown):
        if DURATION.search(shown[: match.start()]) or DESCRIPTOR.search(shown[: match.end()]):
            continue
        found.append(("number", line[: match.start()] + str(int(match[0]) + 1) + line[match.end() :]))
    if shown.count("(") == shown.count(")") and shown.count("{") == shown.count("}"):
        if GUARD.match(shown):
            found.append(("guard", ""))
        elif CALL.match(shown) or SET.match(shown):
            found.append(("statement", ""))
    return found


def begins_statement(lines, number):
    """Returns whether the line before has ended, so that this line is a statement and no branch of an if."""
    before = next(
        (
            lines[i].strip()
            for i in range(number - 1, -1, -1)
            if lines[i].strip() and not lines[i].strip().startswith("//")
        ),
        "",
    )
    return before.endswith((";", "{", "}")) and not (before.endswith(")") or before.endswith("else"))


def unseen(line):
    return next((why for why, those in UNSEEN.items() if those.search(line)), None)


def unseen_body(text, body):
    """Returns whether only the compiler runs this body."""
    return (
        unseen(text[max(text.rfind(end, 0, body.begin) for end in ";}") + 1 : body.begin]) == "compile time"
    )


def slip_at(name, text, number, chance):
    """Returns a mutant of this line as an entry of the table, or None."""
    lines = text.split("\n")
    line = lines[number]
    if LEFT_OUT.search(line) or unseen(line):
        return None
    kinds = collections.defaultdict(list)
    for kind, planted in slips_of(line):
        if planted or begins_statement(lines, number):
            kinds[kind].append(planted)
    while kinds:
        kind = chance.choice(sorted(kinds))
        planted = chance.choice(kinds[kind])
        begin = number
        while text.count("\n".join(lines[begin : number + 1])) != 1 and number - begin < 12 and begin > 0:
            begin -= 1
        before = lines[begin:number]
        bug = table.Bug(
            f"slip_{pathlib.Path(name).stem}_{number + 1}",
            "",
            name,
            f"slip: {kind}",
            present=before + [line],
            planted=before + ([planted] if planted else []),
        )
        body = switched.switchable(text, bug)
        if (
            text.count("\n".join(bug.present)) == 1
            and all(text for text in bug.present[:1])
            and body
            and not unseen_body(text, body)
        ):
            return bug
        del kinds[kind]
    return None


def includers():
    """Returns, for each file, how many others include it, directly or not."""
    direct = collections.defaultdict(set)
    for path in draw.ROOT.rglob("*"):
        if path.suffix in (".cc", ".h", ".cu") and "build" not in path.relative_to(draw.ROOT).parts[0]:
            for included in re.findall(r'^#include "([^"]+)"', path.read_text(errors="replace"), re.M):
                direct[included].add(path.relative_to(draw.ROOT).as_posix())
    counts = {}
    for name in direct:
        seen, todo = set(), [name]
        while todo:
            for other in direct.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        counts[name] = len(seen)
    return counts


def make(count, seed, most):
    known, chance, counts, hidden = {}, random.Random(seed), includers(), collections.Counter()
    places = [
        place
        for place in draw.lines_of_code()
        if not place[0].endswith(".h") or counts.get(place[0], 0) <= most
    ]
    for place in draw.draw(places, min(count, len(places)), seed):
        for name, number in places[places.index(place) :][:200]:
            text = (draw.ROOT / name).read_text()
            line = text.split("\n")[number - 1]
            bug = slip_at(name, text, number - 1, chance)
            if (why := unseen(line)) and slips_of(line) and not LEFT_OUT.search(line):
                hidden[why] += 1
            if bug and bug.name not in known:
                known[bug.name] = bug
                break
    print("skipped, because no test could see the mutation:", dict(hidden) or "none", file=sys.stderr)
    return list(known.values())


def write(bugs):
    for bug in bugs:
        print(f"bug {bug.name}\nfile {bug.file}\nbreaks {bug.breaks}")
        if bug.file.startswith("kernels/cuda/"):
            print("tests cuda_emulated")
        print("\n".join(["-" + line for line in bug.present] + ["+" + line for line in bug.planted]) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--includers", type=int, default=12)
    parser.add_argument("--of", type=pathlib.Path, help="table from which --count mutants are drawn")
    parser.add_argument(
        "--without",
        type=pathlib.Path,
        action="append",
        default=[],
        help="tables whose mutants are not drawn again",
    )
    options = parser.parse_args()
    if not options.of:
        return write(make(options.count, options.seed, options.includers))
    seen = {bug.name for bug in table.read_all(options.without)}
    left = [bug for bug in table.read_all([options.of]) if bug.name not in seen]
    if len(left) < options.count:
        sys.exit(f"{options.of}: {len(left)} mutants are left; expected at least {options.count}")
    return write(draw.draw(left, options.count, options.seed))


if __name__ == "__main__":
    sys.exit(main())
