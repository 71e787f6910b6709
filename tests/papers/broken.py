#!/usr/bin/env python3
"""Breaks each mechanism of broken.txt on purpose, and runs the short form of its paper, which must fail.

    broken.py --check                               # no build: does each mutant fit, and was it noticed?
    broken.py --build BUILD --scratch FOLDER --json tests/bench/results/papers/broken.json
    broken.py --build BUILD --scratch FOLDER --only split_stays,parts_are_not_used

A run needs a build folder of the tree (ninja) and does not change it. Only the files with mutants are
compiled again, into FOLDER, with both bodies of each mutated function (tests/mutation/switched.py); the
programs are linked from them and the libraries of the build. TROUPE_BUG chooses the mutant. First each
paper's short form must pass without any. --json keeps what was noticed, and which bounds were missed;
`--check` compares that file with the table, so that a new or changed mutant has to be run. `--check` is part
of ctest papers_checks.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests" / "mutation"))
import switched  # noqa: E402
import table  # noqa: E402

PAPERS = ("bat", "rcllm", "hlem", "xgr", "flame")
PROGRAMS = ("deploy/troupe-lab", "tests/climber_bench", "tests/shapes_bench")
RECORD = ROOT / "tests/bench/results/papers/broken.json"
SECONDS_MOST = 1200  # of a short form
MUTANTS_LEAST = 10  # two for each paper
MISSED = re.compile(r"^missed, and not explained: (.*)$", re.M)


def mutants():
    return table.read_all([HERE / "broken.txt"])


def entry_hash(bug):
    """Names what the mutant does; a record with another one is of another mutant."""
    parts = [bug.file, *bug.tests, *bug.present, "", *bug.planted]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


# ---- the table and the record ----


def breaches(bugs, tree, record):
    """Yields what is wrong with the table, and with the record of its last run."""
    yield from table.check(bugs, tree, PAPERS)
    if len(bugs) < MUTANTS_LEAST:
        yield f"broken.txt has {len(bugs)} mutants; expected at least {MUTANTS_LEAST}"
    for paper in PAPERS:
        if sum(bug.tests == [paper] for bug in bugs) < 2:
            yield f"broken.txt: expected two mutants or more with `tests {paper}`"
    for bug in bugs:
        run = record["mutants"].get(bug.name)
        if not run or run["entry"] != entry_hash(bug):
            yield f"{bug.where}: {bug.name} was not run as it stands; run broken.py --json (see its head)"
        elif not run["missed"]:
            yield f"{bug.where}: {bug.name}: the short form of {run['paper']} did not notice it"
    for name in sorted(set(record["mutants"]) - {bug.name for bug in bugs}):
        yield f"{RECORD.name}: {name} is not in broken.txt"


def read_record(path):
    if not os.path.exists(path):
        return dict(commit="", unbroken={}, mutants={})
    with open(path) as file:
        return json.load(file)


# ---- programs with the mutants ----


def write(path, text):
    """Writes a file, unless it has this text already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write_sources(bugs, tree, folder):
    """Writes mutated copies of the files; returns file → copy. Mutants are numbered from 1, in order."""
    numbers = {bug.name: number for number, bug in enumerate(bugs, 1)}
    write(folder / switched.HEADER, switched.HEADER_TEXT)
    copies = {}
    for file in dict.fromkeys(bug.file for bug in bugs):
        text, of_file = (tree / file).read_text(), [bug for bug in bugs if bug.file == file]
        for bug in of_file:
            if not switched.switchable(text, bug):
                sys.exit(f"{bug.where}: {bug.name} is not inside one function; expected a mutant that is")
        copies[file] = folder / file
        write(copies[file], switched.switched(text, of_file, numbers))
    return copies


LIBRARY = re.compile(r"(.*)/CMakeFiles/(troupe_\w+)\.dir/")


def units(build, tree, copies):
    """Yields (command, folder, source, object, library) of the component libraries' translation units that
    have a copied file, by itself or among united ones."""
    with open(build / "compile_commands.json") as file:
        commands = json.load(file)
    for entry in commands:
        words = shlex.split(entry["command"])
        output = words[words.index("-o") + 1]
        of = LIBRARY.match(output)
        if output.startswith("tests/") or not of:
            continue
        source = pathlib.Path(entry["file"])
        text = source.read_text() if "Unity" in source.parts else f'#include "{source}"\n'
        if any(f'"{tree / file}"' in text for file in copies):
            yield words, entry["directory"], text, output, f"{of[1]}/lib{of[2]}.a"


def is_current(made, sources):
    return made.exists() and all(made.stat().st_mtime >= source.stat().st_mtime for source in sources)


def compile_units(build, tree, copies, scratch):
    """Returns object → the library of the build in which it replaces one."""
    objects = {}
    for words, folder, text, output, library in units(build, tree, copies):
        inside = {file: copy for file, copy in copies.items() if f'"{tree / file}"' in text}
        for file, copy in inside.items():
            text = text.replace(f'"{tree / file}"', f'"{copy}"')
        source = scratch / "units" / (output.replace("/", "_") + ".cc")
        made = source.with_suffix(".o")
        objects[str(made)] = library
        write(source, text)
        if is_current(made, [source, build / output, *inside.values()]):
            continue
        words = words[: words.index("-c")] + [f"-I{scratch / 'source'}", "-c", str(source)]
        words[words.index("-o") + 1] = str(made)
        print(f"compiling {output}", flush=True)
        subprocess.run(words, cwd=folder, check=True)
    return objects


def link(build, program, objects, scratch):
    """Links a program of the build with these objects before its libraries, which so are not asked for what
    the objects define."""
    text = subprocess.run(
        ["ninja", "-t", "commands", program], cwd=build, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    words = shlex.split(text.strip().rpartition("\n")[2])
    words = words[words.index("&&") + 1 :]
    words = words[: words.index("&&")]
    at = words.index("-o")
    program_at = scratch / "bin" / pathlib.Path(program).name
    program_at.parent.mkdir(parents=True, exist_ok=True)
    ours = [made for made, library in objects.items() if library in words]
    print(f"linking {program}", flush=True)
    subprocess.run(words[:at] + ours + ["-o", str(program_at)] + words[at + 2 :], cwd=build, check=True)


def build_programs(build, bugs, scratch):
    cache = (build / "CMakeCache.txt").read_text()
    tree = pathlib.Path(re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache, re.M)[1])
    copies = write_sources(bugs, tree, scratch / "source")
    objects = compile_units(build, tree, copies, scratch)
    for program in PROGRAMS:
        link(build, program, objects, scratch)


# ---- runs ----


def run_short(paper, scratch, build, number):
    """Returns the exit status of the short form, the bounds that it missed, and its seconds."""
    environment = dict(
        os.environ,
        TROUPE_LAB=str(scratch / "bin" / "troupe-lab"),
        TROUPE=str(build / "deploy" / "troupe"),
        TROUPE_TESTS=str(scratch / "bin"),
        TROUPE_BUG=str(number),
    )
    command, begin = [HERE / paper / "run.sh", "--short"], time.monotonic()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS_MOST)
    except subprocess.TimeoutExpired:
        return 124, [f"no end within {SECONDS_MOST} s"], SECONDS_MOST
    missed = MISSED.findall(done.stdout)
    missed = [bound for bound in missed if ": null: " not in bound] or missed
    if done.returncode and not missed:
        missed = ["ended without a table: " + (done.stderr.strip() or done.stdout.strip())[-200:]]
    return done.returncode, missed if done.returncode else [], round(time.monotonic() - begin, 1)


def run_all(options, bugs, record):
    """Runs the papers without mutants, then the chosen mutants; returns the exit status."""
    build, scratch = options.build.resolve(), options.scratch.resolve()
    if not options.linked:
        build_programs(build, bugs, scratch)
    lab = scratch / "bin" / "troupe-lab"
    said = subprocess.run([lab, "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout
    record["commit"] = said.strip().rpartition(" ")[2]
    chosen = options.only.split(",") if options.only else [bug.name for bug in bugs]
    wrong = 0
    for paper in PAPERS:
        if not any(bug.name in chosen for bug in bugs if bug.tests == [paper]):
            continue
        if not options.broken_only:
            code, missed, seconds = run_short(paper, scratch, build, 0)
            record["unbroken"][paper] = dict(missed=missed, seconds=seconds)
            print(
                f"{paper}, nothing broken: {'fails: ' + '; '.join(missed) if code else 'passes'}", flush=True
            )
            wrong += code != 0
        for number, bug in enumerate(bugs, 1):
            if bug.tests != [paper] or bug.name not in chosen:
                continue
            code, missed, seconds = run_short(paper, scratch, build, number)
            run = dict(paper=paper, entry=entry_hash(bug), breaks=bug.breaks, missed=missed, seconds=seconds)
            record["mutants"][bug.name] = run
            print(
                f"{paper}, {bug.name}: {'noticed: ' + '; '.join(missed) if code else 'NOT NOTICED'}",
                flush=True,
            )
            wrong += code == 0
            save(options.json, record, bugs)
    return 1 if wrong else 0


def save(path, record, bugs):
    if not path:
        return
    known = [bug.name for bug in bugs if bug.name in record["mutants"]]
    record["mutants"] = {name: record["mutants"][name] for name in known}
    with open(path, "w") as file:
        json.dump(record, file, indent=1)
        file.write("\n")


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare the table with the tree and the record")
    parser.add_argument("--build", type=pathlib.Path, help="build folder of the tree")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for copies, objects and programs")
    parser.add_argument("--linked", action="store_true", help="the programs are in --scratch already")
    parser.add_argument("--broken-only", action="store_true", help="skip the runs without a mutant")
    parser.add_argument("--only", help="only these mutants, by name")
    parser.add_argument("--json", help="keep the verdicts in this file; those of other mutants stay")
    options = parser.parse_args()
    if not options.check and not (options.build and options.scratch):
        parser.error("expected --check, or --build and --scratch")
    return options


def main():
    options, bugs = parse_options(), mutants()
    if options.check:
        found = list(breaches(bugs, ROOT, read_record(RECORD)))
        print("\n".join(found) or f"{len(bugs)} mutants fit, and short forms noticed all")
        return 1 if found else 0
    return run_all(options, bugs, read_record(options.json or ""))


if __name__ == "__main__":
    sys.exit(main())
