"""Finds out which tests reach which mutants of a build that contains all of them (switched.py).

A test that never enters a mutant's function cannot detect it. So run.py runs exactly the tests that enter the
function: far fewer than all tests of a component, and none is left out.

Every function with a mutant marks a byte when it is entered. The bytes are in the file named by
TROUPE_REACHED, which a test shares with all processes that it starts. Tests are distinguished by source
file, golden file and ctest name. The marks are kept beside the copy of the tree until the test's program
is rebuilt.
"""
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

import draw
import switched


@dataclass
class Unit:
    program: str
    name: str
    command: list
    folder: str
    built: float  # modification time of its program, in seconds
    seconds: float = 0
    reaches: list = field(default_factory=list)
    steady: bool = True

    @property
    def key(self):
        return f"{self.program} {self.name}"


def call(command, folder, seconds, variables):
    """Runs a command. Returns "passes" or how it failed, its output, and its seconds."""
    began = time.monotonic()
    child = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | variables,
    )
    try:
        said, _ = child.communicate(timeout=seconds)
        how = (
            "passes"
            if child.returncode == 0
            else "fails"
            if child.returncode > 0
            else f"ends by signal {-child.returncode}"
        )
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        said, how = child.communicate()[0], "hangs"
    try:
        os.killpg(child.pid, signal.SIGKILL)  # processes that it left behind
    except ProcessLookupError:
        pass
    return how, said.decode(errors="replace"), time.monotonic() - began


def source_files(listing):
    """Returns the files of the test cases in a doctest XML listing, relative to the root of the tree."""
    files = re.findall(r'<TestCase [^>]*filename="([^"]+)"', listing)
    return sorted({re.sub(rf"^.*?(?=\b({'|'.join(draw.ROOMS)}|tests)/)", "", file) for file in files})


class Tests:
    """All test units of these programs; each is recorded when it is first needed."""

    def __init__(self, folder, build, programs, numbers, wrap, beside):
        self.book, self.build, self.programs, self.wrap = folder / "reached.json", build, programs, wrap
        self.names = {number: name for name, number in numbers.items()}
        self.folder, self.beside, self.lock, self.recording = (
            folder,
            beside,
            threading.Lock(),
            threading.Lock(),
        )
        self.kept = json.loads(self.book.read_text()) if self.book.is_file() else {}
        self.units = {}

    def linked(self):
        """Returns when the programs that scripts run were last linked."""
        return max((self.build / "deploy" / name).stat().st_mtime for name in ("troupe", "troupe-lab"))

    def split(self, program):
        """Returns the units of a program, not recorded yet."""
        path, *arguments = self.programs[program]["command"]
        if path == "ctest":
            built = self.linked()
            names = re.search(r"\^\((.*)\)\$", arguments[1])[1].split("|")
            return [
                Unit(program, name, ["ctest", "-R", f"^{name}$", *arguments[2:]], str(self.build), built)
                for name in names
            ]
        place = self.build / path
        start = [str(place), *arguments]
        built = place.stat().st_mtime if path[:2] != ".." else self.linked()
        folder = str(place.parent)
        if path.endswith("transcripts.py"):
            pages = sorted(page.stem for page in (place.parent / "golden").glob("*.txt"))
            start[start.index("--troupe") + 1] = str(self.build / "deploy" / "troupe")
            return [Unit(program, page, [*start, "--only", page], folder, built) for page in pages]
        if "--abort-after=1" not in arguments:
            return [Unit(program, "all", start, folder, built)]
        _, listing, _ = call([*self.wrap, *start, "--list-test-cases", "--reporters=xml"], folder, 60, {})
        return [
            Unit(program, name, [*start, f"--source-file=*/{name}"], folder, built)
            for name in source_files(listing)
        ]

    def record(self, unit):
        kept = self.kept.get(unit.key)
        if kept and kept["built"] == unit.built and kept["of"] == len(self.names):
            unit.seconds, unit.reaches, unit.steady = kept["seconds"], kept["reaches"], kept["steady"]
            return
        marks = self.folder / f"marks-{threading.get_ident()}"
        for _ in range(3):
            marks.write_bytes(bytes(switched.MARKS))
            how, said, unit.seconds = call(
                [*self.wrap, *unit.command], unit.folder, 900, {switched.REACHED: str(marks)}
            )
            if how == "passes":
                break
        unit.steady = how == "passes"
        if not unit.steady:
            print(
                f"{unit.key}: {how} without a mutant, so it is not used: {said[-300:]}",
                flush=True,
            )
        unit.reaches = [
            self.names[number]
            for number, mark in enumerate(marks.read_bytes())
            if mark and number in self.names
        ]
        with self.lock:
            self.kept[unit.key] = {
                "built": unit.built,
                "of": len(self.names),
                "seconds": round(unit.seconds, 2),
                "reaches": unit.reaches,
                "steady": unit.steady,
            }
            self.book.write_text(json.dumps(self.kept))

    def of_program(self, program):
        with self.recording:
            if program not in self.units:
                units = self.split(program)
                with concurrent.futures.ThreadPoolExecutor(self.beside) as pool:
                    list(pool.map(self.record, units))
                self.units[program] = sorted(units, key=lambda unit: unit.seconds)
            return self.units[program]

    def judge(self, bug, number, programs, why, earlier):
        """Runs all units that reach the mutant: its own program first, each program's quickest first.

        A test that fails and then passes is no evidence. `earlier`: units that this mutant survived before,
        with the build time of their program.
        """
        asked, unsteady = {}, []
        for program in programs:
            for unit in self.of_program(program):
                if bug.name not in unit.reaches or not unit.steady:
                    continue
                asked[unit.key] = unit.built
                if earlier.get(unit.key) == unit.built:
                    continue
                outcomes = [self.ask(unit, number)]
                if outcomes[0][0] != "passes":
                    outcomes.append(self.ask(unit, number))
                if all(how != "passes" for how, _ in outcomes):
                    how, said = outcomes[-1]
                    return {
                        "verdict": "caught",
                        "by": program,
                        "unit": unit.name,
                        "how": how,
                        "why": why(said),
                    }
                if len(outcomes) > 1:
                    unsteady.append(unit.key)
        return {"verdict": "survives", "reached": asked} | ({"unsteady": unsteady} if unsteady else {})

    def ask(self, unit, number):
        how, said, _ = call(
            [*self.wrap, *unit.command], unit.folder, 30 + 10 * unit.seconds, {switched.CHOSEN: str(number)}
        )
        return how, said
