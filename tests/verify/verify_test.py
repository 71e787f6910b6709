#!/usr/bin/env python3
"""Checks `troupe verify` on the demo and on the shared models.

    tests/verify/verify_test.py --troupe build/deploy/troupe
    tests/verify/verify_test.py --troupe build/deploy/troupe --full    # all requests of each model

Each model's golden scores, which an independent program computed, must equal the arrangement that they are
of, and one wrong score among them must fail with its line and candidate. Reuse of cached blocks must change
no score. The demo's arrangements must be interchangeable as its form says. --write must make a form that a
second run agrees with. A shared model that is not beside the checkout is skipped, and one that Troupe
cannot load is named with the reason; every other shared model must be in the list.
"""
import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import golden_lines  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
SHARED = os.path.join(ROOT, "..", "shared")
DEMO = os.path.join(ROOT, "deploy", "demo")

# Shared models without a check, and why. Each is a checkpoint as its trainer wrote it.
NOT_LOADED = {
    "meta-hstu-ml100k": "a checkpoint to convert: tests/hstu/published.py checks it",
    "meta-sasrec-ml100k": "a checkpoint to convert, of SASRec",
    "meta-dlrm-hstu": "Troupe does not load checkpoints of Meta's DLRM-HSTU",
}


class Model:
    """A model directory with its data, and runs of `troupe verify` on it."""

    full = False  # all requests instead of a few

    def __init__(self, troupe, folder, model, data, golden):
        self.troupe, self.folder, self.model, self.data = troupe, folder, model, data
        with open(golden) as file:
            self.golden = json.load(file)

    def requests(self, count):
        return ("--requests", "0" if self.full else str(count))

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
        status, text, numbers = model.verify(*options, *model.requests(requests), lines=lines)
        self.expect(status == 0 and not numbers["faults"], f"{name}: golden scores", text)
        golden = numbers["golden"]
        self.expect(golden["lines"] == len(lines) and golden["equals"] == equals, f"{name}: equal", golden)
        reuse = [one for row in numbers["arrangements"] for one in row["reuse"]]
        self.expect(reuse and all(one["largest_difference"] < 2e-5 for one in reuse), f"{name}: reuse", reuse)
        lines = lines[-4:]
        at = len(lines) // 2
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
    status, text, numbers = model.verify(*model.requests(200), *declare)
    checks.expect(status == 0 and numbers["events"] >= 200 and numbers["shown"], "demo", text)
    checks.expect(numbers["interchangeable"] == ["item_first", "user_first"], "demo: interchangeable", text)
    with open(form) as file, open(os.path.join(model.model, "prompt.json")) as own:
        checks.expect(json.load(file) == json.load(own), "demo: the written form", form)
    checks.equal("demo", model, model.lines(named=True), equals="", requests=5)
    checks.equal("demo", model, model.lines(arrangement="item_first"), equals="item_first", requests=5)
    check_write_fault(checks, model)
    check_unknown(checks, model)


def check_write_fault(checks, model):
    """A form that cannot be written sets exit status 1, and the report is printed."""
    missing = os.path.join(model.folder, "none", "form.json")
    status, text, numbers = model.verify("--requests", "3", "--write", "--prompt", missing)
    checks.expect(
        status == 1
        and not numbers["faults"]
        and f"not written: {missing}: cannot be written (" in text
        and "item_first        first" in text,
        "demo: a form that cannot be written",
        text,
    )


def check_unknown(checks, model):
    """Unknown items of an evaluation file are an error with file and line, or are left out."""
    events = os.path.join(model.folder, "events.jsonl")
    with open(os.path.join(model.data, "requests.jsonl")) as file:
        rows = [json.loads(line) for line in file][:2]
    rows[1]["candidates"][0:0] = ["no-such-item"]
    with open(events, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    words = [model.troupe, "verify", "--model", model.model, "--data", model.data, "--eval", events]
    run = subprocess.run(words, capture_output=True, text=True)
    checks.expect(
        run.returncode == 1
        and "events.jsonl:2: user " in run.stderr
        and "has item no-such-item; expected an item of the catalog, or --skip-unknown" in run.stderr,
        "demo: an unknown item",
        run.stdout,
        run.stderr,
    )
    status, text, numbers = model.verify("--eval", events, "--skip-unknown")
    checks.expect(
        status == 0 and numbers["events"] == 2 and numbers["left_out"]["unknown_items"] == 1,
        "demo: --skip-unknown",
        text,
    )


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


def check_cold_user(checks, model, name):
    """A user without events is computed, as a server computes them, and stops no run."""
    events = os.path.join(model.folder, "cold.tsv")
    with gzip.open(os.path.join(model.model, "eval.tsv.gz"), "rt") as file:
        header, first, second = [file.readline().rstrip("\n").split("\t") for _ in range(3)]
    for column in ("history", "items", "timestamps", "actions"):
        if column in header:
            first[header.index(column)] = ""
    with open(events, "w") as file:
        file.writelines("\t".join(row) + "\n" for row in (header, first, second))
    status, text, numbers = model.verify("--eval", events)
    checks.expect(status == 0 and numbers["requests"] == 2, f"{name}: a user without events", text)
    candidates = first[header.index("candidates")].split(" ")[:2]
    tasks = 2 if "actions" in header else 1
    line = {"history": [], "candidates": candidates, "scores": [[1000] * tasks] * 2}
    status, text, numbers = model.verify("--eval", events, lines=[line])
    checks.expect(
        status == 1 and "expected 1000.000000" in text and "NaN" not in text,
        f"{name}: golden scores of a user without events",
        text,
    )


def check_items(checks, model, name, count):
    """A model whose tokens are items, some of whose users have no events."""
    checks.equal(name, model, model.lines(), equals=served_arrangement(model), requests=count)
    check_cold_user(checks, model, name)


def served_arrangement(model):
    return "towers" if "actions" in model.golden["cases"][0] else "history"


def check_large(checks, model):
    """The model of serving size, whose weights are generated: its research layer, then its production layer.
    Their catalog and users are those of the golden cases."""
    cases = model.golden["cases"]
    model.data = os.path.join(model.folder, "large")
    os.mkdir(model.data)
    items = sorted({item for case in cases for item in case["item_ids"] + case["candidate_ids"]})
    with open(os.path.join(model.data, "items.jsonl"), "w") as file:
        for item in items:
            file.write(json.dumps({"id": str(item), "tokens": [item], "identifier": item}) + "\n")
    users = os.path.join(model.data, "users.jsonl")

    def write_users(*members):
        with open(users, "w") as file:
            for number, case in enumerate(cases[:3]):
                user = {"id": str(number), "history": [str(item) for item in case["item_ids"]]}
                file.write(json.dumps({**user, **{name: case[name] for name in members}}) + "\n")

    write_users("timestamps")
    checks.equal("large hstu", model, model.lines(), equals="history", requests=3)
    stu = os.path.join(model.folder, "stu")
    os.mkdir(stu)
    shutil.copy(os.path.join(model.model, "config-stu.json"), os.path.join(stu, "config.json"))
    shutil.copy(os.path.join(model.model, "generator.json"), stu)
    production = Model(
        model.troupe, model.folder, stu, model.data, os.path.join(model.model, "golden-stu.json")
    )
    lines = production.lines(inputs=model.golden)
    write_users()  # this layer reads no times
    checks.equal("production layer", production, lines, equals="history", requests=3)


def check_not_loaded(checks, troupe, name, reason):
    words = [troupe, "verify", "--model", os.path.join(SHARED, "models", name)]
    words += ["--data", os.path.join(SHARED, "data", "movielens-100k")]
    run = subprocess.run(words, capture_output=True, text=True)
    checks.expect(
        run.returncode == 1 and "config.json: " in run.stderr,
        f"{name}: loads now, or fails otherwise; check its golden scores here",
        run.stdout,
        run.stderr,
    )
    print(f"not checked: {name}, because {reason}")


def check_shared(checks, troupe, folder):
    known = set(NOT_LOADED)

    def shared(name, data, check):
        known.add(name)
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
    items = "data/movielens-100k"
    shared("tiny-hstu-movielens", items, lambda model: check_items(checks, model, "hstu", 20))
    shared("tiny-climber", items, lambda model: check_items(checks, model, "climber", 20))
    shared("random-hstu-512", items, lambda model: check_large(checks, model))
    shared("tiny-onerec", "data/amazon-industrial", golden_only("generator", 20, ""))
    shared("tiny-onerec-beauty", "data/amazon-beauty", golden_only("generator of four levels", 20, ""))
    models = os.path.join(SHARED, "models")
    for name in sorted(os.listdir(models) if os.path.isdir(models) else []):
        if name in NOT_LOADED:
            check_not_loaded(checks, troupe, name, NOT_LOADED[name])
        elif os.path.exists(os.path.join(models, name, "README.md")):
            checks.expect(name in known, f"{name}: is checked nowhere")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--full", action="store_true", help="all requests of each model (minutes)")
    options = parser.parse_args()
    Model.full = options.full
    troupe = os.path.abspath(options.troupe)
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
