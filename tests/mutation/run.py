#!/usr/bin/env python3
"""Puts one mutant of the table at a time into a copy of the tree, builds its component's tests and runs them.

  run.py --check                      # only: does every mutant still fit into the tree, in one place?
  run.py --scratch FOLDER             # all mutants; the copy and its build stay in FOLDER for the next run
  run.py --scratch FOLDER --components router,kernels --only a,b --wider --json result.json

A mutant is caught if a test fails, crashes or hangs. Options:

  --wider      also runs system tests on mutants that survive their own component's tests
  --resume     keeps the verdicts in FOLDER/verdicts.jsonl for mutants whose entry has not changed
  --seconds N  starts no mutant after N seconds
  --together   builds all switchable mutants at once (switched.py): one build, then one run for each
  --within     runs only the tests in each mutant's own folder, which is quick
  --reached    records which tests enter which mutated functions, then runs all that do (reached.py)
  --beside N   judges N mutants at a time, with --reached

Exit status 1 if a mutant survives or does not build, or if fewer than --least per cent are caught.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import reached
import switched
import table

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rooms_test(room):
    return {"target": f"{room}_test", "command": [f"{room}/{room}_test", "--abort-after=1", "--no-intro"]}


def wider_test(name):
    return {"target": f"{name}_test", "command": [f"tests/{name}_test", "--abort-after=1", "--no-intro"]}


# The programs that can run: the CMake targets, and the command below the build folder.
PROGRAMS = {
    room: rooms_test(room)
    for room in ("kernels", "placement", "runtime", "actors", "router", "server", "sim", "deploy")
}
PROGRAMS["lab"] = {"target": "lab_test", "command": ["deploy/lab/lab_test", "--abort-after=1", "--no-intro"]}
PROGRAMS |= {name: wider_test(name) for name in ("scenario", "families", "fuzz")}
PROGRAMS["reference"] = {
    "target": "reference_test",
    "command": ["tests/reference/reference_test", "--abort-after=1"],
}
PROGRAMS["cuda_emulated"] = {
    "target": "cuda_emulated_test",
    "command": ["kernels/cuda/cuda_emulated_test", "--profile", "90", "--abort-after=1"],
}
PROGRAMS["swarm"] = {"target": "troupe-lab", "command": ["deploy/troupe-lab", "sim", "--seeds", "1..100"]}
PROGRAMS |= {
    name: {"target": f"{name}_test", "command": [f"tests/hstu/{name}_test", "--abort-after=1", "--no-intro"]}
    for name in ("hstu", "hstu_rows")
}
PROGRAMS |= {
    f"{name}_device": {
        "target": f"{name}_device_test",
        "command": [f"tests/{name}/{name}_device_test", "--profile", "90", "--abort-after=1", "--no-intro"],
    }
    for name in ("hstu", "reference")
}
PROGRAMS["readers"] = wider_test("readers")
PROGRAMS["commands"] = {
    "target": "troupe troupe-lab",
    "command": ["../tests/commands/transcripts.py", "--troupe", "../../build/deploy/troupe"],
}
PROGRAMS["fuzz_targets"] = {
    "target": "fuzz_replay",
    "command": ["tests/fuzz/targets/fuzz_replay", str(ROOT / "tests/fuzz/corpus"), "20000"],
}
# Other tests that run whole nodes, by their ctest names.
NODE_TESTS = (
    "http_errors|examples|climber_golden|generate_golden|repair_golden|repair_served|generate_clients|"
    "hstu_golden|hstu_published|request_cost|papers_bat|papers_planner|papers_rcllm|papers_flame|"
    "papers_xgr|disk_damage|refresh|linearizability|dialects|appends|"
    "several_models|live_page|client|features_outage|what_if|papers_hlem|several_models_cluster"
)
PROGRAMS["nodes"] = {
    "target": "troupe troupe-lab",
    "command": ["ctest", "-R", f"^({NODE_TESTS})$", "--stop-on-failure", "--timeout", "300"],
}
# Programs that --wider runs, in this order, on a mutant that survived its own tests.
WIDER = {
    "kernels": ["reference", "commands", "scenario", "fuzz", "nodes"],
    "placement": ["router", "actors", "commands", "nodes"],
    "runtime": ["commands", "scenario", "readers", "fuzz", "nodes"],
    "actors": ["sim", "commands", "scenario", "nodes"],
    "router": ["sim", "commands", "scenario", "readers", "nodes"],
    "server": ["commands", "scenario", "readers", "nodes"],
    "sim": ["commands", "nodes"],
    "deploy": ["lab", "commands", "scenario", "fuzz", "nodes"],
    "lab": ["commands", "fuzz", "readers", "families", "nodes"],
}
# Programs that --reached runs after a mutant's own, in this order, if they enter its function.
ALL = [
    "placement",
    "router",
    "server",
    "actors",
    "commands",
    "deploy",
    "lab",
    "sim",
    "scenario",
    "readers",
    "families",
    "kernels",
    "runtime",
    "fuzz",
    "fuzz_targets",
    "hstu",
    "hstu_rows",
    "reference",
    "cuda_emulated",
    "hstu_device",
    "reference_device",
    "nodes",
    "swarm",
]
BUILD_SECONDS = 1800
FOLDER_SECONDS = 30  # usual duration of a folder's tests, on a busy machine
UNSTEADY_MAX = 5  # flaky tests tolerated in one run of a program


def is_doctest(program):
    return "--abort-after=1" in PROGRAMS[program]["command"]


class Scratch:
    """A copy of the tree with its own build. Writes only files that differ, so that little is rebuilt."""

    def __init__(self, folder, wrap, jobs, configure, together):
        self.tree, self.build = folder / "tree", folder / "tree" / "build"
        self.wrap, self.jobs = wrap, jobs
        self.usual = {}  # seconds of each program without a mutant
        self.numbers = {
            bug.name: number
            for number, bug in enumerate(together, 1)
            if switched.switchable(whole(bug.file), bug)
        }
        # Names of mutants that did not compile together with the others; kept from run to run.
        self.book = folder / "not_beside.txt"
        for name in self.book.read_text().split() if self.book.is_file() else []:
            self.numbers.pop(name, None)
        # Mutants in one build; the number selects which one runs.
        self.together = [bug for bug in together if bug.name in self.numbers]
        self.chosen = 0
        if (self.tree / ".git").exists():
            sys.exit(
                f"{self.tree} is a checkout; expected a folder for a copy: other files in it are deleted"
            )
        self.copy()
        if not (self.build / "build.ninja").is_file():
            done = self.run(["cmake", "--preset", "release", *configure], BUILD_SECONDS, self.tree)
            if done != "passes":
                sys.exit(f"{self.tree}: cmake failed: {self.said}")

    def copy(self):
        names = (
            subprocess.run(
                ["git", "ls-files", "-coz", "--exclude-standard"],
                cwd=ROOT,
                check=True,
                stdout=subprocess.PIPE,
            )
            .stdout.decode()
            .split("\0")
        )
        kept = {name for name in names if name and (ROOT / name).is_file()}
        for path in self.tree.rglob("*") if self.tree.is_dir() else []:
            name = path.relative_to(self.tree).as_posix()
            if path.is_file() and not name.startswith("build/") and name not in kept | {switched.HEADER}:
                path.unlink()
        self.write(switched.HEADER, switched.HEADER_TEXT.encode())
        for name in kept:
            those = [bug for bug in self.together if bug.file == name]
            text = (
                switched.switched(whole(name), those, self.numbers).encode()
                if those
                else (ROOT / name).read_bytes()
            )
            self.write(name, text, (ROOT / name).stat().st_mode)

    def write(self, name, text, mode=0o644):
        copy = self.tree / name
        if copy.is_file() and copy.read_bytes() == text:
            return
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(text)
        copy.chmod(mode)

    def run(self, command, seconds, folder):
        """Returns "passes" or how the command failed; its output is in `said`."""
        child = subprocess.Popen(
            [*self.wrap, *command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | ({switched.CHOSEN: str(self.chosen)} if self.chosen else {}),
        )
        try:
            said, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # and all processes that it started
            said, _ = child.communicate()
            self.said = said.decode(errors="replace")
            return "hangs"
        self.said = said.decode(errors="replace")
        if child.returncode == 0:
            return "passes"
        return "fails" if child.returncode > 0 else f"ends by signal {-child.returncode}"

    def make(self, program):
        command = ["cmake", "--build", str(self.build), "--target", *PROGRAMS[program]["target"].split()]
        return (
            self.run(command + (["-j", str(self.jobs)] if self.jobs else []), BUILD_SECONDS, self.tree)
            == "passes"
        )

    def ask(self, program, *filters):
        """Runs a program. A test that fails, and passes when run alone, is flaky: repeats without it."""
        path, *arguments = PROGRAMS[program]["command"]
        seconds = max(60, 5 * self.usual.get(program, FOLDER_SECONDS if filters else BUILD_SECONDS / 5))
        start = [path if path == "ctest" else str(self.build / path), *arguments, *filters]

        def asked(*more):
            return self.run(start + list(more), seconds, (self.build / path).parent)

        outcome, self.unsteady = asked(), []
        while outcome == "fails" and len(self.unsteady) < UNSTEADY_MAX and (test := failed_test(self.said)):
            said = self.said
            if asked(f"--test-case={pattern(test)}") != "passes":
                self.said = said
                return outcome
            self.unsteady.append(test)
            outcome = asked("--test-case-exclude=" + ",".join(map(pattern, self.unsteady)))
        return outcome

    def make_together(self, programs):
        """Builds all programs with all mutants. Mutants that do not compile this way are built alone."""
        targets = sorted({target for program in programs for target in PROGRAMS[program]["target"].split()})
        command = [
            "cmake",
            "--build",
            str(self.build),
            "--target",
            *targets,
            *(["-j", str(self.jobs)] if self.jobs else []),
        ]
        while self.run(command + ["--", "-k", "0"], BUILD_SECONDS, self.tree) != "passes":
            faulty = [
                bug
                for bug in self.together
                if re.search(rf"(^|/){re.escape(bug.file)}:\d+:\d+: (fatal )?error", self.said, re.M)
            ]
            if not faulty:
                sys.exit(f"the build of all mutants together fails:\n{self.said[-3000:]}")
            for bug in faulty:
                print(
                    f"{bug.name}: does not compile with the others, will be built alone",
                    flush=True,
                )
                self.together.remove(bug)
                del self.numbers[bug.name]
                with self.book.open("a") as out:
                    out.write(bug.name + "\n")
            self.copy()

    def ask_without_bugs(self, program):
        if program in self.usual:
            return
        start = time.monotonic()
        if not self.make(program) or self.ask(program) != "passes":
            sys.exit(f"{program}: fails without a mutant:\n{self.said[-3000:]}")
        self.usual[program] = time.monotonic() - start


def whole(name):
    return (ROOT / name).read_text()


def failed_test(said):
    """Returns the first test that failed: the heading above the first error.

    Headings also stand above plain messages, so a heading alone is not enough.
    """
    name = ""
    for line in said.split("\n"):
        if line.startswith("TEST CASE:"):
            name = line.removeprefix("TEST CASE:").strip()
        elif " ERROR: " in line and name:
            return name
    return ""


def pattern(test):
    """Returns a doctest filter for this test; commas are replaced, because they separate filters."""
    return re.sub(r"[,\\*]", "?", test)


def why(said):
    """Returns the name of the failed test, or else the first line that says what went wrong."""
    if test := failed_test(said):
        return test[:160]
    lines = [line.strip() for line in said.split("\n")]
    for start in ("FATAL", "Check failed", "CHECK", "error:"):
        for line in lines:
            if start in line:
                return line[:160]
    return next((line for line in reversed(lines) if line), "")[:160]


def judge(scratch, bug, programs, within):
    path, unsteady = scratch.tree / bug.file, []
    before, together = path.read_text(), bug.name in scratch.numbers
    try:
        if together:
            scratch.chosen = scratch.numbers[bug.name]
        else:
            path.write_text(bug.plant(whole(bug.file)))
        for program in programs:
            if not together and not scratch.make(program):
                return {"verdict": "does not build", "why": why(scratch.said)}
            # The tests in the mutant's own folder catch most mutants, and soonest.
            near = is_doctest(program) and program in bug.programs
            outcome = (
                scratch.ask(program, f"--source-file=*/{path.parent.relative_to(scratch.tree)}/*")
                if near
                else "passes"
            )
            if outcome == "passes" and not within:
                outcome = scratch.ask(program)
            if outcome != "passes":
                return {"verdict": "caught", "by": program, "how": outcome, "why": why(scratch.said)}
            unsteady += scratch.unsteady
        return {"verdict": "survives"} | ({"unsteady": unsteady} if unsteady else {})
    finally:
        scratch.chosen = 0
        if not together:
            path.write_text(before)


def summary(bugs, verdicts):
    rows, counts = {}, {}
    for bug in bugs:
        if bug.name in verdicts and not bug.equivalent:
            row = rows.setdefault(bug.room, {"caught": 0, "survives": 0, "does not build": 0})
            row[verdicts[bug.name]["verdict"]] += 1
    print(f"\n{'component':<14}{'caught':>8}{'of':>6}{'survive':>10}{'do not build':>15}")
    for room in sorted(rows):
        row = rows[room]
        print(
            f"{room:<14}{row['caught']:>8}{row['caught'] + row['survives']:>6}{row['survives']:>10}"
            f"{row['does not build']:>15}"
        )
    for verdict in ("caught", "survives", "does not build"):
        counts[verdict] = sum(row[verdict] for row in rows.values())
    for bug in bugs:
        seen = verdicts.get(bug.name, {})
        if seen.get("verdict") in ("survives", "does not build") and not bug.equivalent:
            print(f"{seen['verdict']}: {bug.name} ({bug.file}): {bug.breaks} {seen.get('why', '')}")
        if seen.get("verdict") == "caught" and bug.equivalent:
            print(f"not equivalent: {bug.name} is caught by {seen['by']}: {seen['why']}")
    judged = counts["caught"] + counts["survives"]
    equivalent = sum(1 for bug in bugs if bug.equivalent)
    print(
        f"{counts['caught']} of {judged} mutants caught "
        f"({100 * counts['caught'] / max(1, judged):.0f} %), "
        f"{counts['does not build']} do not build, {equivalent} equivalent, "
        f"{len(bugs) - len(verdicts)} not tried"
    )
    return counts


def names(text):
    return [name for name in text.split(",") if name]


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only check that every mutant fits")
    parser.add_argument("--table", type=pathlib.Path, action="append", help="instead of bugs/*.txt")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for the copy of the tree and its build")
    parser.add_argument(
        "--components", "--rooms", dest="rooms", type=names, default=[], help="only mutants of these"
    )
    parser.add_argument("--only", type=names, default=[], help="only these mutants")
    parser.add_argument("--wider", action="store_true", help="also run system tests")
    parser.add_argument("--together", action="store_true", help="one build with all switchable mutants")
    parser.add_argument("--within", action="store_true", help="run only the tests in mutants' own folders")
    parser.add_argument("--reached", action="store_true", help="run all tests that enter a mutant's function")
    parser.add_argument("--beside", type=int, default=1, help="with --reached: mutants judged at a time")
    parser.add_argument("--resume", action="store_true", help="keep the verdicts of an earlier run")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start no mutant after this many seconds"
    )
    parser.add_argument("--least", type=float, default=100, help="per cent of mutants that must be caught")
    parser.add_argument("--wrap", type=shlex.split, default=[], help="command prefix for each build and test")
    parser.add_argument("--jobs", type=int, default=0, help="parallel build jobs; 0: the builder's default")
    parser.add_argument(
        "--configure", type=shlex.split, default=["-DTROUPE_CUDA=OFF"], help="options for cmake"
    )
    parser.add_argument("--json", type=pathlib.Path, help="also write the verdicts to this file")
    options = parser.parse_args()
    options.together |= options.reached
    return options


def programs_of(bug, wider, all_of_them=False):
    further = [program for own in bug.programs for program in WIDER.get(own, [])] if wider else []
    return list(dict.fromkeys(bug.programs + (ALL if all_of_them else further)))


def judges(options, scratch, bugs, earlier):
    """Returns pairs (mutant, function that judges it), to be called in this order.

    `earlier`: for each mutant, the units that it survived before.
    """
    if not options.reached:
        return [
            (bug, lambda bug=bug: asked_of(scratch, bug, options))
            for bug in sorted(bugs, key=lambda bug: bug.name not in scratch.numbers)
        ]
    tests = reached.Tests(
        options.scratch.resolve(), scratch.build, PROGRAMS, scratch.numbers, scratch.wrap, options.beside
    )

    def judged(bug):
        if bug.name not in scratch.numbers:
            why_not = "cannot be switched; run it without --reached"
            return {"verdict": "does not build", "why": why_not}
        return tests.judge(
            bug,
            scratch.numbers[bug.name],
            programs_of(bug, options.wider, options.wider),
            why,
            earlier.get(bug.name, {}),
        )

    return [(bug, lambda bug=bug: judged(bug)) for bug in bugs]


def asked_of(scratch, bug, options):
    programs = programs_of(bug, options.wider)
    for program in programs if not options.within else []:
        scratch.ask_without_bugs(program)
    return judge(scratch, bug, programs, options.within)


def run_bugs(options, bugs, table_bugs):
    start, verdicts, earlier = time.monotonic(), {}, {}
    scratch = Scratch(
        options.scratch.resolve(),
        options.wrap,
        options.jobs,
        options.configure,
        table_bugs if options.together else [],  # the whole table, so that a resumed run needs one build
    )
    book = options.scratch / "verdicts.jsonl"
    entries = {bug.name: [bug.file, bug.present, bug.planted, bug.programs] for bug in bugs}
    # A mutant that survived one set of tests may be judged by another.
    asked = [options.within, options.wider, options.reached]
    if options.resume and book.is_file():
        for line in book.read_text().splitlines():
            row = json.loads(line)
            if entries.get(row["name"]) == row["entry"] and (
                row["verdict"] == "caught" or row["asked"] == asked
            ):
                verdicts[row["name"]] = row
            elif entries.get(row["name"]) == row["entry"]:
                earlier[row["name"]] = row.get("reached", {})
    elif book.is_file():
        book.unlink()
    if options.together:
        scratch.make_together(
            {
                program
                for bug in bugs
                for program in programs_of(bug, options.wider, options.reached and options.wider)
            }
        )

    def one(bug, ask):
        if bug.name in verdicts or time.monotonic() - start > options.seconds:
            return
        began = time.monotonic()
        row = {"name": bug.name, "room": bug.room, **ask()}
        row |= {"seconds": round(time.monotonic() - began, 1), "asked": asked, "entry": entries[bug.name]}
        verdicts[bug.name] = row
        print(f"{bug.name:<36} {row['verdict']:<15} {row.get('by', '')} {row.get('why', '')}", flush=True)
        with book.open("a") as out:
            out.write(json.dumps(row) + "\n")

    with concurrent.futures.ThreadPoolExecutor(options.beside if options.reached else 1) as pool:
        list(pool.map(lambda pair: one(*pair), judges(options, scratch, bugs, earlier)))
    return verdicts


def main():
    options = parse()
    try:
        bugs = table.read_all(options.table or sorted((table.FOLDER / "bugs").glob("*.txt")))
        faults = table.check(bugs, ROOT, PROGRAMS)
    except (table.TableError, OSError) as error:
        sys.exit(str(error))
    if faults:
        sys.exit("\n".join(faults))
    if options.check:
        print(f"{len(bugs)} mutants fit into the tree")
        return 0
    if not options.scratch:
        sys.exit("--scratch: expected a folder for a copy of the tree and its build (some GB)")
    unknown = set(options.only) - {bug.name for bug in bugs} | set(options.rooms) - {bug.room for bug in bugs}
    if unknown:
        sys.exit(f"no such mutant or component: {', '.join(sorted(unknown))}")
    table_bugs = bugs
    bugs = [
        bug
        for bug in bugs
        if (not options.only or bug.name in options.only) and (not options.rooms or bug.room in options.rooms)
    ]
    options.scratch.mkdir(parents=True, exist_ok=True)
    verdicts = run_bugs(options, bugs, table_bugs)
    counts = summary(bugs, verdicts)
    if options.json:
        options.json.write_text(json.dumps(list(verdicts.values()), indent=1) + "\n")
    judged = counts["caught"] + counts["survives"]
    return (
        0
        if judged and not counts["does not build"] and 100 * counts["caught"] >= options.least * judged
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
