#!/usr/bin/env python3
"""Requests all test events of a data set from a node that serves its generator, and checks the recall.

  tests/generate/events.py --troupe build/deploy/troupe --json events.json

For each event the user's history before it is stored, and ten identifiers are requested, `--visits`
times. An event is a hit if its identifier is among them. Prints recall@10, requests/s and latencies of
the first visit and of the others, for each width, with reuse of blocks and with router.policy=recompute.
`troupe-lab bench accuracy`, which runs the engine alone on the same events, must give the same recall. Exit
status 1 if it does not.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

from generate_node import MODELS, SKIPPED, Node, Client, data_folder, missing, model_folder, paths_of, rows


def read_events(model, most):
    sids = {row["item_id"]: row["sid"] for row in rows(os.path.join(data_folder(model), "items.tsv.gz"))}
    events = []
    for row in rows(os.path.join(data_folder(model), "sequences.tsv.gz")):
        items, before = row["items"].split(), int(row["n_train"]) + int(row["n_valid"])
        for at in range(before, before + int(row["n_test"])):
            truth = [4 + 256 * level + int(code) for level, code in enumerate(sids[items[at]].split(","))]
            events.append((f"{row['user_id']}-{at}", items[:at], truth))
    return events[:most] if most else events


class Figures:
    def __init__(self):
        self.lock, self.hits, self.times, self.reused, self.failed = threading.Lock(), 0, [[], []], 0, []

    def add(self, visit, seconds, hit, reused):
        with self.lock:
            self.times[min(visit, 1)].append(seconds)
            if visit == 0:
                self.hits += hit
            self.reused += reused


def ask(server, events, width, normalised, visits, figures):
    try:
        client = Client(server)
        for user, history, truth in events:
            for visit in range(visits):
                begin = time.perf_counter()
                reply = client.generate(user, width=width, top_k=min(width, 20), normalised=normalised)
                seconds = time.perf_counter() - begin
                found = [tokens for tokens, _ in paths_of(reply["items"])][:10]
                figures.add(visit, seconds, truth in found, reply["tokens_reused"])
    except Exception as fault:  # raised by the thread that waits
        figures.failed.append(fault)


def at(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))] * 1e3 if times else 0.0


def run(troupe, model, events, width, args, policy, normalised):
    with Node(troupe, model, [f"router.policy={policy}"] if policy else []) as node:
        client = Client(node.server)
        for user, history, _ in events:
            client.put_user(user, history)
        figures = Figures()
        parts = [events[i :: args.clients] for i in range(args.clients)]
        threads = [
            threading.Thread(target=ask, args=(node.server, part, width, normalised, args.visits, figures))
            for part in parts
        ]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
    if figures.failed:
        raise figures.failed[0]
    asked = sum(len(times) for times in figures.times)
    return {
        "width": width,
        "policy": policy or "usual",
        "normalised": normalised,
        "events": len(events),
        "requests": asked,
        "recall_at_10": figures.hits / len(events),
        "hits": figures.hits,
        "requests_per_second": asked / seconds,
        "tokens_reused": figures.reused,
        "first_visit": {"p50_ms": at(figures.times[0], 0.5), "p99_ms": at(figures.times[0], 0.99)},
        "again": {"p50_ms": at(figures.times[1], 0.5), "p99_ms": at(figures.times[1], 0.99)},
    }


def engine_recall(troupe, model, width, most):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "accuracy.json")
        subprocess.run(
            [
                f"{troupe}-lab",
                "bench",
                "accuracy",
                "--model",
                model_folder(model),
                "--data",
                data_folder(model),
                "--formats",
                "f32/f32",
                "--width",
                str(width),
                "--events",
                str(most),
                "--json",
                out,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return json.load(open(out))["runs"][0]["recall_at_10"]["mean"]


def show(figures, engine):
    print(
        f"width {figures['width']:3}, policy {figures['policy']:9}, over {figures['normalised']:10}: "
        f"{figures['requests_per_second']:6.1f} requests/s, "
        f"first P50 {figures['first_visit']['p50_ms']:.2f} P99 {figures['first_visit']['p99_ms']:.2f} ms, "
        f"again P50 {figures['again']['p50_ms']:.2f} P99 {figures['again']['p99_ms']:.2f} ms; "
        f"recall@10 {figures['recall_at_10']:.4f} (engine {engine:.4f}), "
        f"{figures['tokens_reused']} tokens reused",
        flush=True,
    )


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--model", default="tiny-onerec", choices=MODELS)
    parser.add_argument("--widths", default="20,128")
    parser.add_argument("--events", type=int, default=0, help="only the first N events; 0 = all")
    parser.add_argument("--visits", type=int, default=2, help="requests for each event")
    parser.add_argument("--clients", type=int, default=4, help="concurrent requests")
    parser.add_argument(
        "--normalised",
        default="vocabulary,allowed",
        help="tokens over which probabilities are normalised; the engine's recall is of vocabulary",
    )
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    if missing():
        print(f"skipped: {os.path.basename(missing())} is not beside the checkout")
        return SKIPPED
    events, runs, same = read_events(args.model, args.events), [], True
    for width in (int(word) for word in args.widths.split(",")):
        engine = engine_recall(args.troupe, args.model, width, args.events)
        for policy, normalised in itertools.product(("", "recompute"), args.normalised.split(",")):
            figures = run(args.troupe, args.model, events, width, args, policy, normalised)
            runs.append({**figures, "engine_recall_at_10": engine})
            if normalised == "vocabulary":
                same = same and abs(figures["recall_at_10"] - engine) < 0.5 / len(events)
            show(figures, engine)
    if args.json:
        json.dump(
            {"model": args.model, "clients": args.clients, "visits": args.visits, "runs": runs},
            open(args.json, "w"),
            indent=1,
        )
    print("the recall equals the engine's" if same else "the recall differs from the engine's")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
