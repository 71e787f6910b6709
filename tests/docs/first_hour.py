#!/usr/bin/env python3
"""Runs the commands of docs/first-hour.md on a published checkpoint, and compares the answers with Meta's.

  tests/docs/first_hour.py --troupe build/deploy/troupe

The commands and the program are those of the page as they are, except for the port 8080, which is replaced
by a free one. They run in an empty folder that has build/deploy and deploy/client as a checkout has. The
five files of the page are made of the checkpoint and the data set beside the checkout: with ids of a shop,
names in quotes, times as ISO texts, and events in no order. Before the page's last command, which stops the
node, the best items and similarities of the other customers are compared with the golden file. Exit status
1 on any difference; 77 if the files are not beside the checkout.
"""
import argparse
import csv
import datetime
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "first-hour.md"
MODEL = ROOT.parent / "shared" / "models" / "meta-hstu-ml100k"
ITEMS = ROOT.parent / "shared" / "data" / "movielens-100k" / "items.tsv.gz"
CUSTOMER = "ana"  # the page's customer
PORT = "8080"
COMPARED = 20  # customers
SIMILARITY_OFF, SAME_SIMILARITY = 1e-5, 1e-6
SKIPPED, SECONDS_MAX = 77, 60


def sku(row):
    return f"sku-{row:04}"


def customers(cases):
    """Returns the golden cases by the customers' names; the first is the page's."""
    names = [CUSTOMER] + [f"customer {case['user_id']}" for case in cases[1:]]
    return dict(zip(names, cases))


def iso(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_csv(path, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)


def write_files(folder, golden):
    """Writes the five files that the page asks for."""
    shutil.copy(MODEL / "checkpoint.pt", folder / "checkpoint.pt")
    shutil.copy(MODEL / "config.gin", folder / "config.gin")
    with gzip.open(ITEMS, "rt") as table:
        items = [(int(row["item_id"]), row["title"]) for row in csv.DictReader(table, delimiter="\t")]
    (folder / "rows.tsv").write_text("".join(f"{row}\t{sku(row)}\n" for row, _ in items))
    drawn = random.Random(1)
    drawn.shuffle(items)
    write_csv(
        folder / "items.csv", [("sku", "name", "price"), *((sku(row), name, 1.5) for row, name in items)]
    )
    # Events of one second have an order, which the lines keep; users are mixed.
    lines = {
        name: [
            (name, sku(item), iso(time), "home") for item, time in zip(case["item_ids"], case["timestamps"])
        ]
        for name, case in customers(golden["cases"]).items()
    }
    turns = [name for name in lines for _ in lines[name]]
    drawn.shuffle(turns)
    events = [lines[name].pop(0) for name in turns]
    write_csv(folder / "events.csv", [("customer", "sku", "clicked", "page"), *events])


# ---- the page ----


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def programs(text):
    """Returns the page's programs by the names under which a reader saves them."""
    return dict(re.findall(r"^Save this as `([\w.]+)`:\n\n```python\n(.*?)^```$", text, re.M | re.S))


def script(text, check):
    """Returns the page's commands as one script, with the comparison before the last ones."""
    *commands, last = blocks(text, "sh")
    return "\n".join(
        ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *commands, check, last]
    )


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def run_script(root, port):
    """Runs page.sh, and ends what it started if it takes too long."""
    process = subprocess.Popen(
        ["bash", "page.sh"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"TROUPE_HTTP_PORT": port},  # the page's node has the default
    )
    try:
        out, _ = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out)


def run_page(troupe):
    golden = json.loads((MODEL / "golden.json").read_text())
    port = free_port()
    text = PAGE.read_text().replace(PORT, port)
    with tempfile.TemporaryDirectory(prefix="troupe-first-hour-") as temporary:
        root = pathlib.Path(temporary)
        folder = root / "first-hour"
        for path in ("build", "deploy", "first-hour"):
            (root / path).mkdir()
        (root / "build" / "deploy").symlink_to(troupe.parent)
        (root / "deploy" / "client").symlink_to(ROOT / "deploy" / "client")
        write_files(folder, golden)
        for name, program in programs(text).items():
            (folder / name).write_text(program)
        check = f"PYTHONDONTWRITEBYTECODE=1 python3 '{pathlib.Path(__file__).resolve()}' --compare {port}"
        (root / "page.sh").write_text(script(text, check))
        began = time.monotonic()
        done = run_script(root, port)
        print(done.stdout)
        return done, time.monotonic() - began


def find_fault(done):
    """Returns what is wrong with the output of the page's commands; "" = nothing."""
    if done.returncode:
        return f"a command ended with status {done.returncode}"
    lists = re.findall(r"^[a-z].*\n((?: +\d+  sku-\d{4} .*\n)+)", done.stdout, re.M)
    scores = [[float(line.split()[2]) for line in one.splitlines()] for one in lists]
    if [len(one) for one in scores] != [3, 5, 5]:
        return f"first.py printed lists of {[len(one) for one in scores]} items; expected 3, 5 and 5"
    if any(one != sorted(one, reverse=True) for one in scores):
        return f"first.py printed lists that are not ranked: {scores}"
    clicked = lists[1].split()[1]
    if clicked in lists[2]:
        return f"the list after the click has {clicked}, which was clicked"
    if not re.search(r"^computed 1 of \d+ events", done.stdout, re.M):
        return "more than the last event was computed for the second request"
    return ""


# ---- the comparison, while the page's node serves ----


def list_fault(items, rows, similarities):
    """Compares the best items; items of equal similarity may change places."""
    for place, (item, row, similarity) in enumerate(zip(items, rows, similarities)):
        if item["id"] == sku(row) or abs(item["score"] - similarity) < SAME_SIMILARITY:
            continue
        return f"place {place} has {item['id']} of {item['score']}; expected {sku(row)} of {similarity}"
    return "" if len(items) == len(rows) else f"{len(items)} items; expected {len(rows)}"


def similarities(shop, name, rows, at):
    """Returns the similarity of each row's item, as a ranking gives it."""
    ranked = shop.rank(name, [sku(row) for row in rows], **at)
    scores = {item["id"]: item["score"] for item in ranked["items"]}
    return [scores[sku(row)] for row in rows]


def compare(port):
    from troupe import Client

    golden, largest = json.loads((MODEL / "golden.json").read_text()), 0.0
    cases = customers(golden["cases"])
    del cases[CUSTOMER]  # who has one more event by now
    with Client(f"127.0.0.1:{port}") as shop:
        for name, case in list(cases.items())[:COMPARED]:
            at = {"request_timestamp": case["request_timestamp"]}
            of_row = similarities(shop, name, case["item_ids_scored"], at)
            largest = max(largest, *(abs(a - b) for a, b in zip(of_row, case["similarity"])))
            best = shop.generate(name, top_k=20, **at)["items"]
            if fault := list_fault(best, case["top20"], case["top20_similarity"]):
                sys.exit(f"{name}: {fault}")
            unseen = shop.generate(name, top_k=20, exclude_seen=True, **at)["items"]
            of_row = similarities(shop, name, case["top20_unseen"], at)
            if fault := list_fault(unseen, case["top20_unseen"], of_row):
                sys.exit(f"{name}, unseen: {fault}")
    print(f"{COMPARED} customers, largest difference of a similarity {largest:.1e}")
    if largest > SIMILARITY_OFF:
        sys.exit(f"a similarity differs by {largest}; expected at most {SIMILARITY_OFF}")


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--troupe", type=pathlib.Path)
    options.add_argument("--compare", metavar="PORT", help="compares the node on this port and ends")
    options = options.parse_args()
    if options.compare:
        return compare(options.compare)
    missing = [path for path in (MODEL, ITEMS) if not path.exists()]
    if missing:
        print(f"skipped: {missing[0]} is not beside the checkout")
        return SKIPPED
    done, seconds = run_page(options.troupe.resolve())
    fault = find_fault(done)
    print(fault or f"the page's commands took {seconds:.1f} s")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
