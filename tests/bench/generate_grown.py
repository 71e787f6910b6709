#!/usr/bin/env python3
"""Measures generation for users whose histories grow by one event before each request.

  tests/bench/generate_grown.py --troupe build/deploy/troupe --shape tiny --parts 0,16,64,256
                                --json grown.json

There is one node for each length of history parts (router.history_part; 0 = a history is one block); they
run in rotation for --rounds. Each user has --events events of three tokens and gets one more before each
of --visits requests. Prints requests/s and CPU time of the node (including the writes), latencies, and
the share of the prompts' tokens that was computed. The items must be the same for all parts, up to
rounding.
"""
import argparse
import itertools
import json
import random
import time

from generate_world import Client, World, at


def visit(world, part, normalised, args):
    draw = random.Random(args.seed)
    histories = [world.history(args.events, draw) for _ in range(args.users)]
    extra = [world.history(args.visits, draw) for _ in range(args.users)]
    times, computed, total, found = [], 0, 0, []
    with world.node([f"router.history_part={part}"]) as node:
        client = Client(node.server)
        for user, history in enumerate(histories):  # later requests find these blocks
            client.put_user(user, history)
            client.generate(user, width=args.width, normalised=normalised)
        cpu, begin = node.cpu_seconds(), time.perf_counter()
        for number in range(args.visits):
            for user, history in enumerate(histories):
                history.append(extra[user][number])
                client.put_user(user, history)
                asked = time.perf_counter()
                status, reply = client.generate(user, width=args.width, normalised=normalised)
                times.append(1e3 * (time.perf_counter() - asked))
                if status != 200:
                    raise RuntimeError(f"{status} {reply}")
                computed += reply["tokens_computed"]
                total += reply["tokens_total"]
                found.append([(item["id"], item["log_probability"]) for item in reply["items"]])
        return {
            "part": part,
            "normalised": normalised,
            "requests": len(times),
            "requests_per_second": len(times) / (time.perf_counter() - begin),
            "cpu_ms": 1e3 * (node.cpu_seconds() - cpu) / len(times),
            "p50_ms": at(times, 0.5),
            "p99_ms": at(times, 0.99),
            "tokens": total // len(times),
            "tokens_computed": computed / len(times),
        }, found


def differences(found, first):
    return sum(a[0] != b[0] and abs(a[1] - b[1]) > 1e-4 for x, y in zip(found, first) for a, b in zip(x, y))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--shape", default="tiny", choices=("tiny", "small", "qwen05"))
    parser.add_argument("--parts", default="0,64")
    parser.add_argument("--normalised", default="vocabulary,allowed")
    parser.add_argument("--events", type=int, default=333)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--visits", type=int, default=5)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    runs, first, wrong = [], {}, 0
    with World(args.troupe, args.shape) as world:
        for _ in range(args.rounds):
            for part, normalised in itertools.product(args.parts.split(","), args.normalised.split(",")):
                run, found = visit(world, int(part), normalised, args)
                run["other_items"] = differences(found, first.setdefault(normalised, found))
                wrong += run["other_items"]
                runs.append(run)
                print(
                    f"parts of {part:>4}, over {normalised:10}: "
                    f"{run['requests_per_second']:7.2f} requests/s, "
                    f"{run['cpu_ms']:8.1f} CPU ms, P50 "
                    f"{run['p50_ms']:8.1f} P99 {run['p99_ms']:8.1f} ms; of {run['tokens']} tokens "
                    f"{run['tokens_computed']:.0f} computed; {run['other_items']} other items",
                    flush=True,
                )
    if args.json:
        json.dump(
            {"options": {k: v for k, v in vars(args).items() if k not in ("troupe", "json")}, "runs": runs},
            open(args.json, "w"),
            indent=1,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
