#!/usr/bin/env python3
"""Checks `troupe verify` on the demo and on the shared models.

    tests/verify/verify_test.py --troupe build/deploy/troupe

Each model's golden scores, which an independent program computed, must equal the arrangement that they are
of, and one wrong score among them must fail with its line and candidate. Reuse of cached blocks must change
no score. The demo's arrangements must be interchangeable as its form says. --write must make a form that a
second run agrees with. A shared model that is not beside the checkout is skipped.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import golden_lines  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
SHARED = os.path.join(ROOT, "..", "shared")
DEMO = os.path.join(ROOT, "deploy", "demo")


class Model:
    """A model directory with its data, and runs of `troupe verify` on it."""

    def __init__(self, troupe, folder, model, data, golden):
        self.troupe, self.folder, self.model, self.data = troupe, folder, model, data
        with open(golden) as file:
            self.golden = json.load(file)

    def verify(self, *options, lines=None):
        """Returns the exit status, what was printed, and the numbers."""
        numbers = os.path.join(self.folder, "numbers.json")
        words = [
            self.troupe,
            "verify",
            "--model",
            self.model,
            "--data",
            self.data,
            "--json",
            numbers,
            *options,
        ]
        if lines is not None:
            path = os.path.join(self.folder, "golden.jsonl")
            with open(path, "w") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            words += ["--golden", path]
        run = subprocess.run(words, capture_output=True, text=True)
        if run.returncode not in (0, 1) or run.stderr:
            raise RuntimeError(f"{' '.join(words)}: {run.returncode} {run.stderr}")
        with open(numbers) as file:
            return run.returncode, run.stdout, json.load(file)

    def lines(self, **options):
        return golden_lines.lines_of(self.golden, **options)


def with_one_wrong(lines, at):
    """Returns the lines with the last score of line `at` moved by a hundredth."""
    lines = json.loads(json.dumps(lines))
    scores = lines[at]["scores" if "scores" in lines[at] else "logits"]
    if isinstance(scores[-1], list):
        scores[-1][-1] += 0.01 * max(1, max(abs(score) for pair in scores for score in pair))
    else:
        scores[-1] += 0.01 * max(1, max(map(abs, scores)))
    return lines


class Checks:
    def __init__(self):
        self.faults = []

    def expect(self, right, what, *shown):
        if not right:
            self.faults.append(f"{what}: {' '.join(map(str, shown))[-2000:]}")

    def equal(self, name, model, lines, *options, equals, requests):
        """Expects that golden lines equal what is served, and that one wrong score fails."""
        status, text, numbers = model.verify(*options, "--requests", str(requests), lines=lines)
        self.expect(status == 0 and not numbers["faults"], f"{name}: golden scores", text)
        golden = numbers["golden"]
        self.expect(golden["lines"] == len(lines) and golden["equals"] == equals, f"{name}: equal", golden)
        reuse = [one for row in numbers["arrangements"] for one in row["reuse"]]
        self.expect(reuse and all(one["largest_difference"] < 2e-5 for one in reuse), f"{name}: reuse", reuse)
        lines, at = lines[-4:], 2
        status, text, numbers = model.verify(*options, "--requests", "1", lines=with_one_wrong(lines, at))
        wrong = lines[at]["candidates"][-1] if "candidates" in lines[at] else lines[at]["rows"][-1]
        said = [fault for fault in numbers["faults"] if fault.startswith(f"golden.jsonl:{at + 1}: ")]
        self.expect(
            status == 1 and len(numbers["faults"]) == 1 and len(said) == 1 and f" {wrong}" in said[0],
            f"{name}: one wrong score",
            text,
        )


def check_demo(checks, model):
    """The demo's form lists two of its three arrangements as interchangeable."""
    form = os.path.join(model.folder, "demo.json")
    declare = ("--prompt", form, "--write", "--arrangements", "item_first,user_first,causal")
    status, text, numbers = model.verify("--requests", "200", *declare)
    checks.expect(status == 0 and numbers["events"] == 200 and numbers["shown"], "demo", text)
    checks.expect(numbers["interchangeable"] == ["item_first", "user_first"], "demo: interchangeable", text)
    with open(form) as file, open(os.path.join(model.model, "prompt.json")) as own:
        checks.expect(json.load(file) == json.load(own), "demo: the written form", form)
    checks.equal("demo", model, model.lines(named=True), equals="", requests=5)
    checks.equal("demo", model, model.lines(arrangement="item_first"), equals="item_first", requests=5)


def check_games(checks, model):
    few = ("--requests", "5")
    checks.equal("games", model, model.lines(), equals="causal", requests=5)
    lines = model.lines(arrangement="user_first")[:4]
    status, text, numbers = model.verify(*few, lines=lines)
    checks.expect(
        status == 1 and "the golden scores equal user_first, and requests are served causal" in text,
        "games: another arrangement",
        text,
    )
    form = os.path.join(model.folder, "form.json")
    status, text, numbers = model.verify(*few, "--prompt", form, "--write", lines=lines)
    checks.expect(status == 0 and numbers["written"] == form, "games: --write", text)
    with open(form) as file:
        written = json.load(file)
    checks.expect(
        written["arrangements"] == ["user_first"] and written["discriminant"] == ["<disc>"],
        "games: the written form",
        written,
    )
    checks.equal("games with a form", model, lines, "--prompt", form, equals="user_first", requests=2)
    named = model.lines(named=True)[:6]
    status, text, numbers = model.verify(*few, "--prompt", form, lines=named)
    checks.expect(status == 0 and numbers["golden"]["named_equal"] == 6, "games: named lines", text)


def check_titles(checks, model):
    few = ("--requests", "10")
    status, text, numbers = model.verify(*few, lines=model.lines()[:4])
    checks.expect(
        status == 1 and "equal causal, and requests are served candidates_apart; declare it" in text,
        "titles: scores of prompts with all candidates",
        text,
    )
    form = os.path.join(model.folder, "titles.json")
    status, text, numbers = model.verify(*few, "--prompt", form, "--write", lines=model.lines()[:4])
    checks.expect(status == 0 and numbers["declared"] == ["causal"], "titles: --write", text)
    checks.equal("titles", model, model.lines(), "--prompt", form, equals="causal", requests=10)
    with open(os.path.join(model.model, "prompt.json")) as file:
        own = json.load(file)
    prompts = list(golden_lines.title_prompts(model.golden, [own["yes"], own["no"]]))
    checks.equal("titles: prompts", model, prompts[:20], equals="", requests=5)


def check_shared(checks, troupe, folder):
    def shared(name, data, check):
        model, data = os.path.join(SHARED, "models", name), os.path.join(SHARED, data)
        if not os.path.isdir(model) or not os.path.isdir(data):
            print(f"skipped: {name}, because ../shared is not beside the checkout")
            return
        check(Model(troupe, folder, model, data, os.path.join(model, "golden.json")))
        print(f"{name}: checked")

    def golden_only(name, requests, equals):
        return lambda model: checks.equal(name, model, model.lines(), equals=equals, requests=requests)

    shared("tiny-ranker-games", "data/amazon-games", lambda model: check_games(checks, model))
    shared("tiny-ranker-titles", "models/tiny-ranker-titles", lambda model: check_titles(checks, model))
    shared("tiny-hstu-movielens", "data/movielens-100k", golden_only("hstu", 20, "history"))
    shared("tiny-climber", "data/movielens-100k", golden_only("climber", 20, "towers"))
    shared("tiny-onerec", "data/amazon-industrial", golden_only("generator", 20, ""))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True)
    troupe = os.path.abspath(parser.parse_args().troupe)
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="troupe-verify-") as folder:
        demo = Model(
            troupe,
            folder,
            os.path.join(DEMO, "model"),
            os.path.join(DEMO, "world"),
            os.path.join(DEMO, "golden.json"),
        )
        check_demo(checks, demo)
        print("demo: checked")
        check_shared(checks, troupe, folder)
    for fault in checks.faults:
        print(fault)
    return 1 if checks.faults else 0


if __name__ == "__main__":
    sys.exit(main())
