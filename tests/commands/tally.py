#!/usr/bin/env python3
"""Replays seeds and counts their messages: tally.py A B [OPTIONS OF troupe sim]

Of each kind of message how many there were in all seeds A..B, and the sum of the whole numbers in them; what requests came to
in each seed. Whatever actors decide otherwise shows here, and in which kind of message first.
"""
import collections
import re
import subprocess
import sys

SENT = re.compile(r"^ *([\d.]+)s  (\w+)@\d+ → \w+@\d+  (\w+)\{(.*)")
WHOLE = re.compile(r"(?<![\w.])\d{1,15}(?![\w.])")


def replay(seed, options):
    return subprocess.run(["troupe", "sim", "--replay", str(seed), "--messages", *options], check=False,
                          stdout=subprocess.PIPE).stdout.decode().splitlines()


def main(first, last, *options):
    counts, sums = collections.Counter(), collections.Counter()
    for seed in range(int(first), int(last) + 1):
        lines = replay(seed, options)
        for line in lines:
            if sent := SENT.match(line):
                counts[sent[3]] += 1
                sums[sent[3]] += sum(map(int, WHOLE.findall(sent[4])))
        print(f"seed {seed}: " + " | ".join(re.sub(r", digest \w+", "", line) for line in lines[-2:]))
    for kind in sorted(counts):
        print(f"{kind:<24}{counts[kind]:>9}{sums[kind]:>22}")


if __name__ == "__main__":
    main(*sys.argv[1:])
