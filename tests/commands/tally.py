#!/usr/bin/env python3
"""Replays seeds of the simulation and counts their messages: tally.py A B [OPTIONS OF troupe-lab sim]

Prints, for each kind of message, its count over the seeds A..B and the sum of the whole numbers in it;
the outcomes of requests in each seed; and the metrics and logs of all nodes. A change of any actor's
decisions or counts shows here, and in which kind of message it shows first.
"""
import collections
import re
import subprocess
import sys

SENT = re.compile(r"^ *([\d.]+)s  (\w+)@\d+ → \w+@\d+  (\w+)\{(.*)")
FIGURE = re.compile(r"^(troupe_\S+|logged \w+) (-?[\d.e+-]+)(?: (-?\d+))?$")
WHOLE = re.compile(r"(?<![\w.])\d{1,15}(?![\w.])")


def replay(seed, options):
    return (
        subprocess.run(
            ["troupe-lab", "sim", "--replay", str(seed), "--messages", "--figures", *options],
            check=False,
            stdout=subprocess.PIPE,
        )
        .stdout.decode()
        .splitlines()
    )


def main(first, last, *options):
    counts, sums, figures = collections.Counter(), collections.Counter(), collections.Counter()
    for seed in range(int(first), int(last) + 1):
        lines = replay(seed, options)
        for line in lines:
            if sent := SENT.match(line):
                counts[sent[3]] += 1
                sums[sent[3]] += sum(map(int, WHOLE.findall(sent[4])))
            elif (figure := FIGURE.match(line)) and "_bucket{" not in line:
                figures[figure[1]] += float(figure[2])
                if figure[3]:
                    figures[figure[1] + ", sum"] += int(figure[3])
        print(f"seed {seed}: " + " | ".join(re.sub(r", digest \w+", "", line) for line in lines[-2:]))
    for kind in sorted(counts):
        print(f"{kind:<24}{counts[kind]:>9}{sums[kind]:>22}")
    for figure, total in sorted(figures.items()):
        print(f"{figure:<70}{total:.0f}" if total == round(total) else f"{figure:<70}{total:.6e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
