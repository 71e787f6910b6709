#!/usr/bin/env python3
"""Gives each option of each command an invalid value, and prints the answer: bounds.py

Values are checked before anything is done. Each call also has an unknown option, so nothing is ever run.
"""
import re
import subprocess

NONE = "--no-such-option"


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
    listed = re.search(r"(?ms)^(?:Sub)?[Cc]ommands:\n(.*?)(?=^\S|\Z)", text)
    names = re.findall(r"(?m)^  ([a-z][\w-]*)", listed[1]) if listed else []
    return [command for name in names for command in commands(*above, name)] if names else [(above, text)]


for command, text in commands("troupe") + commands("troupe-lab"):
    told = set()
    for option, rest in re.findall(r"(?m)^\s+(?:-\w,)?(--[a-z][\w-]*)(?:,\S+)? ([A-Z]+\b.*)?", text):
        if not rest:
            continue
        answer = said(*command, option, "!", NONE).split("\n")[0]
        if NONE not in answer and "Run with" not in answer and answer not in told:
            told.add(answer)
            print(" ".join(command), answer)
