#!/usr/bin/env python3
"""Checks that a repair chosen on rankings of games also works on MovieLens.

  tests/bench/movie_plans.py [--lab build/deploy/troupe-lab] [--users 400] [--json FILE]

There is no ranker trained on movies, so two others rank them. A ranker of titles reads a movie's title,
year and genres as the words that it knows. A ranker of games reads each movie as a random semantic ID.
Their rankings mean little, so only the overlap of the ten best with the plain prompt's is printed.
Histories are the users' own, in the
order of their ratings. Candidates are the next movie and others, drawn by how often they were rated."""
import argparse
import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
RANKERS = {
    "tiny-ranker-titles": dict(history=10, candidates=20),
    "tiny-ranker-games": dict(history=60, candidates=100),
}


def rows_of(path):
    with gzip.open(path, "rt") as file:
        names = next(file).rstrip("\n").split("\t")
        return [dict(zip(names, line.rstrip("\n").split("\t"))) for line in file]


def words_of(movie, names, first_word):
    """Returns the words of a movie as the ranker reads titles; an unknown word becomes another, always
    the same."""
    room = len(names) - first_word
    found = re.findall("[a-z]+|[0-9]+", f"{movie['title']} {movie['year']} {movie['genres']}".lower())[:16]
    return [names[word] if word in names else first_word + sum(map(ord, word)) * 31 % room for word in found]


def semantic_id(movie, names, chance):
    return [names[f"<{level}_{chance.randrange(256)}>"] for level in "abcd"]


def make_data(folder, ranker, movies, users, count, seed):
    chance, names = random.Random(seed), json.loads((SHARED / "models" / ranker / "vocab.json").read_text())
    of_titles = ranker == "tiny-ranker-titles"
    with gzip.open(folder / "items.jsonl.gz", "wt") as items:
        for movie in movies:
            tokens = words_of(movie, names, 16) if of_titles else semantic_id(movie, names, chance)
            identifier = (
                {"identifier": 0} if of_titles else {"identifier": names[f"<item_{movie['item_id']}>"]}
            )
            items.write(
                json.dumps({"id": movie["item_id"], "title": movie["title"], "tokens": tokens, **identifier})
                + "\n"
            )
    sizes, known = RANKERS[ranker], [movie["item_id"] for movie in movies]
    rated = {item: 1 for item in known}
    for user in users:
        for item in user["items"].split():
            rated[item] = rated.get(item, 0) + 1
    with open(folder / "eval.tsv", "w") as file:
        file.write("user_id\thistory\tcandidates\ttrue_index\n")
        for user in chance.sample(users, min(count, len(users))):
            seen = user["items"].split()
            at = chance.randrange(min(len(seen) - 1, 5), len(seen))  # some are short
            others = sorted(set(known) - set(seen), key=int)
            chosen = set()
            while len(chosen) < sizes["candidates"] - 1:
                chosen.update(
                    chance.choices(
                        others, [rated[item] for item in others], k=sizes["candidates"] - 1 - len(chosen)
                    )
                )
            candidates = [*sorted(chosen), seen[at]]
            chance.shuffle(candidates)
            history = seen[max(0, at - sizes["history"]) : at]
            file.write(
                f"{user['user_id']}\t{' '.join(history)}\t{' '.join(candidates)}\t"
                f"{candidates.index(seen[at])}\n"
            )


def plans(options, ranker, movies, users):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_data(folder, ranker, movies, users, options.users, options.seed)
        answered = folder / "plans.json"
        subprocess.run(
            [
                options.lab,
                "bench",
                "plans",
                "--model",
                SHARED / "models" / ranker,
                "--data",
                folder,
                "--eval",
                folder / "eval.tsv",
                "--plans",
                "causal,blocks,all_blocks",
                "--selection",
                options.selection,
                "--correction",
                options.correction,
                "--repair",
                options.repair,
                "--json",
                answered,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return json.loads(answered.read_text())["runs"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", default=ROOT / "build/deploy/troupe-lab")
    parser.add_argument("--rankers", default=",".join(RANKERS))
    parser.add_argument("--selection", default="importance,tail,deviation,first")
    parser.add_argument("--correction", default="none,mean,mean+layer2")
    parser.add_argument("--repair", default="10,30,60")
    parser.add_argument("--users", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    data = SHARED / "data" / "movielens-100k"
    if not os.path.exists(data):
        print(f"skipped: no data in {data}")
        return 77
    movies, users = rows_of(data / "items.tsv.gz"), rows_of(data / "sequences.tsv.gz")
    users = [user for user in users if len(user["items"].split()) > 5]
    rows = []
    print(f"{'ranker':<19} {'plan':<12} {'repair':>6} {'selection':<11} {'correction':<12} overlap@10")
    for ranker in options.rankers.split(","):
        for run in plans(options, ranker, movies, users):
            row = dict(
                ranker=ranker,
                **{key: run.get(key) for key in ["plan", "repair", "selection", "correction", "overlap@10"]},
            )
            rows.append(row)
            overlap = row["overlap@10"]
            print(
                f"{ranker:<19} {row['plan']:<12} {row['repair'] or '':>6} {row['selection'] or '':<11} "
                f"{row['correction'] or '':<12} "
                f"{overlap['mean']:.3f} ± {overlap['standard_error']:.3f}",
                flush=True,
            )
    if options.json:
        pathlib.Path(options.json).write_text(
            json.dumps({"users": options.users, "seed": options.seed, "rows": rows}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
