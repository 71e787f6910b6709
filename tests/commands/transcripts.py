#!/usr/bin/env python3
"""Runs the commands of the golden files and compares their output.

  transcripts.py --troupe PROGRAM [--only NAME]     # exit status 1 and a diff if an output differs
  transcripts.py --troupe PROGRAM --write           # rewrites the golden files; review the diff

The program troupe-lab is beside PROGRAM.

A golden file (golden/*.txt) has commands after `$`, each followed by its output. Its commands run one
after the other in an empty folder. Numbers with a fraction may differ in their sixth digit, because
machines round sums in different orders; everything else must be equal. Lines before the first command:

    # a comment
    mask REGEX     the match (or its group) is measured, not computed; it is shown as ~
    above0 REGEX   the same for numbers above 0; other numbers are shown
    needs PROGRAM  without this program the file is skipped; with a slash it is a path from the root

$DEMO is deploy/demo, $SHARED the data beside the checkout, $COMMANDS this folder.

After `$ serve ARGUMENTS` a single node serves the data folder `box` until the end of the file, with a
policy that does not depend on times; $PORT is its port.
"""
import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")
SECONDS = 120  # maximum duration of a command
LONGEST = "pins", "limits", "sim", "histories", "measured", "tables", "capture"  # files that take longest


class Page:
    def __init__(self, path):
        self.path, self.lines = path, path.read_text().split("\n")
        first = next(i for i, line in enumerate(self.lines) if line.startswith("$ "))
        self.head = self.lines[:first]
        self.masks = [
            (re.compile(words[1]), words[0] == "above0")
            for line in self.head
            if (words := line.split(" ", 1))[0] in ("mask", "above0")
        ]
        self.commands = [line.removeprefix("$ ") for line in self.lines if line.startswith("$ ")]


class Typist:
    """An empty folder with both programs in it, and possibly a node that serves."""

    def __init__(self, troupe):
        self.folder, self.node = pathlib.Path(tempfile.mkdtemp(prefix="troupe-commands-")), None
        for program in ("troupe", "troupe-lab"):
            os.symlink(troupe.with_name(program), self.folder / program)
        self.environment = os.environ | {
            "DEMO": str(ROOT / "deploy" / "demo"),
            "SHARED": str(ROOT.parent / "shared"),
            "COMMANDS": str(HERE),
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
        }

    def close(self):
        if self.node and self.node.poll() is None:
            self.node.send_signal(signal.SIGTERM)
            self.node.wait(60)
        shutil.rmtree(self.folder)

    def start(self, command):
        rest = command.removeprefix("serve")
        line = (
            f"exec troupe serve --data-dir box --port 0 --port-file port --set node.log_file=log --set "
            f"router.policy=bat{rest}"
        )
        self.node = subprocess.Popen(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "log.err").open("w"),
        )
        end = time.monotonic() + SECONDS
        while not (port := self.folder / "port").is_file() or not port.read_text().strip():
            if self.node.poll() is not None or time.monotonic() > end:
                return (self.folder / "log.err").read_text() + "the node does not serve\n"
            time.sleep(0.02)
        self.environment["PORT"] = port.read_text().strip()
        return ""

    def type(self, command):
        if command.split()[0] == "serve":
            return self.start(command)
        done = subprocess.run(
            ["bash", "-c", f"umask 022; set -o pipefail; {command}"],
            cwd=self.folder,
            env=self.environment,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        # A line of progress is overwritten; only its last state is kept.
        said = re.sub(r"(^|\n)[^\n]*\r", r"\1", done.stdout.decode(errors="replace"))
        said = (
            said.replace(str(self.folder), "FOLDER")
            .replace(str(ROOT.parent / "shared"), "SHARED")
            .replace(str(ROOT), "ROOT")
        )
        # The line about cgroups and masks is there only where they limit the process.
        said = re.sub(r'^.*"event":"limits".*(\n|$)', "", said, flags=re.M)
        # The options that one excludes come in the order of addresses.
        said = re.sub(
            r"(Excludes:)((?: --[\w-]+){2,})", lambda m: " ".join([m[1], *sorted(m[2].split())]), said
        )
        if said and not said.endswith("\n"):
            said += "\n"
        return said + (f"(status {done.returncode})\n" if done.returncode else "")


def is_here(needed):
    return (ROOT / needed).exists() if "/" in needed else shutil.which(needed)


def hidden(match, above0):
    """Masks the match, or its group if there is one."""
    begin, end = (i - match.start() for i in match.span(match.re.groups))
    if above0 and not is_above0(match[0][begin:end]):
        return match[0]
    return match[0][:begin] + "~" + match[0][end:]


def is_above0(text):
    try:
        return float(text) > 0
    except ValueError:
        return False


def told(page, troupe):
    """Returns the golden file with the present outputs."""
    typist, lines = Typist(troupe), list(page.head)
    try:
        for command in page.commands:
            said = typist.type(command)
            for mask, above0 in page.masks:
                said = mask.sub(lambda match: hidden(match, above0), said)
            said = "\n".join(line.rstrip() for line in said.split("\n"))
            lines += [f"$ {command}"] + [
                "  " + line if line else "" for line in said.rstrip("\n").split("\n") if said.strip()
            ]
    finally:
        typist.close()
    return lines + [""]


def shape(line):
    """Returns the line without fractions, and without white space and dashes that depend on their length."""
    return re.sub(r"\s+", " ", re.sub(r"--+", "--", NUMBER.sub("0", line)))


def alike(a, b):
    """Returns whether two lines are equal, up to the last digits of their fractions."""
    if a == b:
        return True
    if shape(a) != shape(b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b))
    return all(abs(float(x) - float(y)) <= 2e-5 * max(abs(float(x)), abs(float(y))) + 2e-6 for x, y in pairs)


def same(a, b):
    return len(a) == len(b) and all(map(alike, a, b))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="golden files whose names contain this text")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--parallel", type=int, default=1, help="files at a time")
    options = parser.parse_args()

    def run(path):
        """Returns whether the file's outputs are the golden ones."""
        page, start = Page(path), time.monotonic()
        if missing := [
            line
            for line in page.head
            if line.startswith("needs ") and not is_here(line.removeprefix("needs "))
        ]:
            print(f"skipped: {path.stem}: {missing[0]}", flush=True)
            return True
        now = told(page, options.troupe.resolve())
        took = f"{path.stem}: {len(page.commands)} commands, {time.monotonic() - start:.1f} s"
        if options.write:
            path.write_text("\n".join(now))
        elif not same(page.lines, now):
            names = f"{path.stem}: golden", "present output"
            print("\n".join([*difflib.unified_diff(page.lines, now, *names, lineterm=""), took]), flush=True)
            return False
        print(took, flush=True)
        return True

    paths = sorted(path for path in (HERE / "golden").glob("*.txt") if options.only in path.stem)
    paths.sort(key=lambda path: LONGEST.index(path.stem) if path.stem in LONGEST else len(LONGEST))
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        failed = [path.stem for path, agrees in zip(paths, pool.map(run, paths)) if not agrees]
    if failed:
        print(f"differ from the golden files: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
