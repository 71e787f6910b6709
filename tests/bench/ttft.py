#!/usr/bin/env python3
"""Compares the time until a ranking (TTFT) of blocks reused anywhere with that of a prefix cache (RcLLM
§IV-B).

    ttft.py --shared FOLDER [--lab PROGRAM] [--shapes small,qwen05] [--data industrial,beauty]
            [--events 40] [--json FILE]

Prompts have 2,200 to 3,000 tokens of real catalogs, by Qwen3's tokenizer: a common prefix of 207 tokens,
a history, and candidates with titles and descriptions (Industrial) or keywords (Beauty). Models have a
benchmark's shape and random weights, so their rankings mean nothing, except the agreement of two plans
(overlap of the ten best). Every request runs under each plan in rotation, in one process and on one
thread; item blocks and the prefix are cached. FOLDER has `data/` and `tokenizers/`. Prints P50 and P99 of
CPU time and the ratios, beside the ratios that the spared operations would allow.
"""
import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

from qwen_tokens import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM, FIRST_WORD, VOCABULARY = 207, 1041, 32768
POPULAR = 300  # candidates come from so many items, so that few blocks are precomputed


def rows(file):
    with gzip.open(file, "rt", encoding="utf-8") as text:
        lines = [line.rstrip("\n").split("\t") for line in text]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def industrial(folder):
    descriptions = {row["item_id"]: row["description"] for row in rows(folder + "/descriptions.tsv.gz")}
    return {
        row["item_id"]: row["title"] + "\n" + descriptions[row["item_id"]]
        for row in rows(folder + "/items.tsv.gz")
    }


def beauty(folder):
    return {
        row["item_id"]: row["asin"] + " " + row["keywords"].replace("|", " ").replace("▁", " ")
        for row in rows(folder + "/items.tsv.gz")
    }


# Folder, texts, maximum tokens of an item, candidates, maximum events of a history. Beauty has no titles
# here, only identifiers and keywords. Its items are short, so more of them are ranked, to get prompts of
# the same length.
SETS = {
    "industrial": ("amazon-industrial", industrial, 120, 20, 5),
    "beauty": ("amazon-beauty", beauty, 120, 80, 12),
}


class World:
    """Catalog, requests and prompt form of a data set, for a vocabulary that is smaller than Qwen's.

    Tokens are numbered in order of appearance; when the numbers run out, numbering starts again.
    """

    def __init__(self, shared, name, requests, seed):
        folder, texts, longest, self.candidates, events = SETS[name]
        tokenizer = Tokenizer(os.path.join(shared, "tokenizers/qwen3/tokenizer.json.gz"))
        draw, numbers = random.Random(seed), {}
        data = os.path.join(shared, "data", folder)
        histories = [row["items"].split() for row in rows(data + "/sequences.tsv.gz")]
        count = {}
        for item in (item for history in histories for item in history):
            count[item] = count.get(item, 0) + 1
        popular = sorted(count, key=lambda item: (-count[item], item))[:POPULAR]
        self.requests = []
        for number, history in enumerate(draw.sample([h for h in histories if len(h) >= 5], requests)):
            chosen = draw.sample(popular, self.candidates)
            self.requests.append((f"u{number}", history[-draw.randint(3, events) :], chosen))
        used = sorted({item for _, history, chosen in self.requests for item in history + chosen})
        texts = texts(data)
        self.items = {}
        for item in used:
            ids = tokenizer.encode(texts[item])[:longest]
            self.items[item] = [
                FIRST_WORD + numbers.setdefault(token, len(numbers)) % (VOCABULARY - FIRST_WORD)
                for token in ids
            ]
        lengths = sorted(
            SYSTEM + sum(len(self.items[item]) for item in history + chosen)
            for _, history, chosen in self.requests
        )
        self.lengths = dict(least=lengths[0], p50=lengths[len(lengths) // 2], most=lengths[-1])

    def write(self, folder, model):
        with open(os.path.join(folder, "items.jsonl"), "w") as file:
            for number, (item, tokens) in enumerate(self.items.items()):
                print(
                    json.dumps(dict(id=item, title=item, tokens=tokens, identifier=FIRST_WORD + number)),
                    file=file,
                )
        with open(os.path.join(folder, "eval.tsv"), "w") as file:
            print("user_id\thistory\tcandidates\ttrue_index", file=file)
            for user, history, candidates in self.requests:
                print(user, " ".join(history), " ".join(candidates), 0, sep="\t", file=file)
        with open(os.path.join(model, "prompt.json"), "w") as file:
            json.dump(
                dict(
                    system=[FIRST_WORD + i for i in range(SYSTEM)],
                    user=["<user>"],
                    instruction=[7, 8, 9],
                    discriminant=["<disc>"],
                ),
                file,
            )


def measure(lab, shape, world, options):
    with tempfile.TemporaryDirectory(prefix="troupe-ttft-") as folder:
        model, answer = os.path.join(folder, "model"), os.path.join(folder, "answer.json")
        subprocess.check_call(
            [lab, "bench", "make-model", "--shape", shape, "--family", "qwen3", "--out", model],
            stdout=subprocess.DEVNULL,
        )
        world.write(folder, model)
        subprocess.check_call(
            [
                lab,
                "bench",
                "plans",
                "--model",
                model,
                "--data",
                folder,
                "--eval",
                os.path.join(folder, "eval.tsv"),
                "--plans",
                "causal,blocks",
                "--prefix",
                "--selection",
                "tail",
                "--correction",
                options.correction,
                "--repair",
                options.repair,
                "--json",
                answer,
            ],
            stdout=subprocess.DEVNULL,
        )
        with open(answer) as file:
            return json.load(file)["runs"]


def summary(runs):
    plain = next(run for run in runs if run["plan"] == "causal")
    for run in runs:
        yield dict(
            plan=run["plan"],
            correction=run["correction"],
            p50_ms=run["cpu_ms p50"],
            p99_ms=run["cpu_ms p99"],
            p50_ratio=plain["cpu_ms p50"] / run["cpu_ms p50"],
            p99_ratio=plain["cpu_ms p99"] / run["cpu_ms p99"],
            paired_ratio=run["full to this, paired"],
            allowed=1 / run["operations to full"],
            overlap_at_10=run["overlap@10"],
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shared", required=True)
    parser.add_argument("--lab", default=os.path.join(HERE, "../../build/deploy/troupe-lab"))
    parser.add_argument("--shapes", default="small,qwen05")
    parser.add_argument("--data", default="industrial,beauty")
    parser.add_argument(
        "--events", type=int, default=40, help="requests; with fewer than 100 P99 is the slowest one"
    )
    parser.add_argument("--repair", default="30", help="per cent of tokens to recompute")
    parser.add_argument("--correction", default="mean,mean+layer2")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json")
    options = parser.parse_args()
    results = []
    print(
        f"{'shape':8}{'data':12}{'tokens':>7}  "
        f"{'plan':14}{'correction':14}{'P50 ms':>9}{'P99 ms':>9}{'P50 x':>7}{'P99 x':>7}"
        f"{'allowed':>9}{'reached':>9}{'overlap':>9}"
    )
    for name in options.data.split(","):
        world = World(options.shared, name, options.events, options.seed)
        for shape in options.shapes.split(","):
            found = list(summary(measure(options.lab, shape, world, options)))
            results.append(
                dict(shape=shape, data=name, events=options.events, tokens=world.lengths, runs=found)
            )
            for run in found:
                print(
                    f"{shape:8}{name:12}{world.lengths['p50']:7}  "
                    f"{run['plan']:14}{run['correction']:14}{run['p50_ms']:9.0f}"
                    f"{run['p99_ms']:9.0f}{run['p50_ratio']:7.2f}{run['p99_ratio']:7.2f}{run['allowed']:9.2f}"
                    f"{run['p50_ratio'] / run['allowed']:9.2f}{run['overlap_at_10']['mean']:9.3f}",
                    flush=True,
                )
    if options.json:
        commit = subprocess.run([options.lab, "--version"], capture_output=True, text=True).stdout.strip()
        with open(options.json, "w") as file:
            json.dump(
                dict(commit=commit, repair=options.repair, seed=options.seed, results=results), file, indent=1
            )
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
