#!/usr/bin/env python3
"""Draws the locations of a new set of mutants: lines of code, from each folder in proportion to its lines.

  draw.py --seed 20261123 --count 110             # file:line and the line, in the order of the tree
  draw.py --seed 20261123 --count 110 --around 8  # with the lines around each

All lines of code form one sequence, ordered by file name. The first line is drawn at random from the first
interval; the others follow at equal distances. Somebody who has not read the tests then writes the nearest
realistic mutation to each line by hand. Not drawn: tests, benchmarks, the GPU emulator, code that only nvcc
compiles, and lines on which nothing can be wrong.
"""
import argparse
import pathlib
import random
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("kernels", "placement", "runtime", "actors", "router", "server", "sim", "deploy")
LEFT_OUT = re.compile(
    r"_test\.(cc|h)$|_test_\w+\.h$|/testing/|^kernels/cuda/(bench|simt)/|_cuda\.(cc|h)$|"
    r"^kernels/cuda/\w+/\w*hopper\w*\.|^deploy/(demo|examples|lab/bench|lab/experiments)/"
)
EMPTY = re.compile(
    r"^\s*(//.*|#.*|[{}()\[\];,]*|\}.*//.*|namespace .*|using .*|(public|private|protected):|class .*|"
    r"struct .*|enum .*|extern .*|template ?<.*>|(else|default:|return;|break;))\s*$"
)


def lines_of_code():
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in (".cc", ".h", ".cu") or LEFT_OUT.search(name):
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if not EMPTY.match(line):
                yield name, number


def draw(lines, count, seed):
    """Returns lines at equal distances from a random start, so a folder's share is exact to one line."""
    step = len(lines) / count
    begin = random.Random(seed).uniform(0, step)
    return [lines[int(begin + step * turn)] for turn in range(count)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--around", type=int, default=0, help="lines shown before and after each")
    options = parser.parse_args()
    lines = list(lines_of_code())
    for name, number in draw(lines, min(options.count, len(lines)), options.seed):
        text = (ROOT / name).read_text().split("\n")
        print(f"{name}:{number}: {text[number - 1].strip()}")
        if options.around:
            shown = range(max(1, number - options.around), min(len(text), number + options.around) + 1)
            print("".join(f"  {'>' if each == number else ' '} {text[each - 1]}\n" for each in shown))


if __name__ == "__main__":
    main()
