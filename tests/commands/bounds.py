#!/usr/bin/env python3
"""Gives each option of each command an invalid value, and prints the answer: bounds.py

Only options whose every value is checked before anything is done: numbers, sizes and choices. So nothing is
ever run.
"""
import re
import subprocess

CHECKED = re.compile(r"(?:UINT|INT|FLOAT|SIZE)\b|TEXT:\{")


def said(*words):
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode()


def commands(*above):
    text = said(*above, "--help")
    listed = text.split("\nExample")[0] if "SUBCOMMAND" in text else ""
    names = re.findall(r"(?m)^  ([a-z][\w-]*)", listed)
    return [command for name in names for command in commands(*above, name)] if names else [(above, text)]


for command, text in commands("troupe") + commands("troupe-lab"):
    told = set()
    for option, rest in re.findall(r"(?m)^\s+(?:-\w,)?(--[a-z][\w-]*)(?:,\S+)? ([A-Z]+\b.*)?", text):
        if not CHECKED.match(rest):
            continue
        answer = said(*command, option, "!").split("\n")[0]
        if answer not in told:
            told.add(answer)
            print(answer)
