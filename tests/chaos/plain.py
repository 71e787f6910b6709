"""Compares the right answers, those of an undisturbed node, with the plain computation of the demo's model
(../answers/plain_model.py), which shares nothing with the program. Needs numpy; a Python that has it runs
this file as a program."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
from python_packages import python_with

TOLERANCE = 1e-4


def find_fault(demo, rows):
    """Returns "" or what differs. Each row has a user, candidates, an arrangement and scores by item."""
    python = python_with("numpy")
    if not python:
        print("right answers are not compared with the plain computation: no numpy")
        return ""
    done = subprocess.run(
        [python, "-B", os.path.abspath(__file__), demo],
        input=json.dumps(rows),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the plain computation: {done.stderr[-500:]}")
    print(f"{len(rows)} right answers compared with the plain computation", flush=True)
    return done.stdout.strip()


def lines_of(*path):
    with open(os.path.join(*path)) as file:
        return [json.loads(line) for line in file]


def differing(demo, rows):
    """Yields what differs from the plain computation."""
    sys.path.append(os.path.join(HERE, "..", "answers"))
    from plain_model import PlainModel, discriminant_prompt

    model = PlainModel(os.path.join(demo, "model"))
    read = lambda name: lines_of(demo, "world", name)
    with open(os.path.join(demo, "model/vocab.json")) as file:
        vocabulary = json.load(file)
    with open(os.path.join(demo, "model/prompt.json")) as file:
        form = json.load(file)
    names = ("system", "user", "instruction", "discriminant")
    parts = {name: [vocabulary[word] for word in form[name]] for name in names}
    items = {item["id"]: item for item in read("items.jsonl")}
    tokens = {id: [vocabulary[word] for word in item["tokens"]] for id, item in items.items()}
    histories = {user["id"]: user["history"] for user in read("users.jsonl")}
    for user, candidates, arrangement, scores in rows:
        prompt = discriminant_prompt(
            parts,
            arrangement,
            [token for item in histories[user] for token in tokens[item]],
            [tokens[item] for item in candidates],
            [vocabulary[items[item]["identifier"]] for item in candidates],
        )
        for item, score in zip(candidates, model.scores(prompt)):
            if not abs(scores[item] - score) < TOLERANCE:
                yield f"user {user}, {arrangement}, {item} has {scores[item]}; expected {score}"


if __name__ == "__main__":
    print(*list(differing(sys.argv[1], json.load(sys.stdin)))[:5], sep="\n")
