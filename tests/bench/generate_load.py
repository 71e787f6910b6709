#!/usr/bin/env python3
"""Measures generation under load: one node after the other, each with another search engine, at rising rates.

  tests/bench/generate_load.py --troupe build/deploy/troupe --widths 128,512 --json load.json --plot load.svg

There is a node for each of --engines (inference.beams; `recompute` adds router.policy=recompute, `alone`
batches of one or two searches) on the same model and catalog. It is measured once for each of --normalised:
probabilities over the vocabulary, or over the tokens that may follow, as in the paper. Closed loop: --clients
send one request after the other. Open loop: requests come at random times (Poisson), at rates that are shares
of the closed loop's best, or at --rates. An open loop lasts --seconds, or up to six times as long while it
has fewer than --requests. Each width has its own world and plot, such as load-512.svg.

Goodput is the highest rate of answers of an open loop whose P99 is at most --limit milliseconds and that
refuses at most one request in a hundred. Requests come from --users users in rotation, whose histories
the node knows; with --fresh each history is new.
"""
import argparse
import json
import os
import random
import threading
import time

from generate_world import Client, World, at

NORMALISED = ("vocabulary", "allowed")
SAME_FOR_BOTH = ("unconstrained",)  # all tokens may follow
RATE_LEAST = 0.2  # requests a second for a node that answers nothing in time
KNOBS = {"recompute": ["router.policy=recompute"], "alone": ["inference.batch_tokens_max=200"]}


def settings_of(engine):
    return KNOBS.get(engine) or [f"inference.beams={engine}"]


class Load:
    def __init__(self, node, world, args, normalised="vocabulary"):
        self.node, self.args, self.normalised = node, args, normalised
        draw = random.Random(args.seed)
        count = args.users if not args.fresh else args.fresh
        self.users = [f"u{i}" for i in range(count)]
        client = Client(node.server)
        for user in self.users:
            client.put_user(user, world.history(args.events, draw))
        if not args.fresh:
            for user in self.users:
                client.generate(user, width=args.width, normalised=normalised)
        self.next, self.lock = 0, threading.Lock()

    def user(self):
        with self.lock:
            self.next += 1
            return self.users[self.next % len(self.users)]

    def ask(self, client, since, done):
        status, _ = client.generate(self.user(), width=self.args.width, top_k=20, normalised=self.normalised)
        with self.lock:
            done.append((status, 1e3 * (time.perf_counter() - since)))

    def closed(self, clients):
        done, end = [], time.perf_counter() + self.args.seconds

        def go():
            client = Client(self.node.server)
            while time.perf_counter() < end:
                self.ask(client, time.perf_counter(), done)

        return self.figures({"loop": "closed", "clients": clients}, [go] * clients, done)

    def open(self, rate):
        draw, times, now = random.Random(self.args.seed + 1), [], 0.0
        lasts = min(max(self.args.seconds, self.args.requests / rate), 6 * self.args.seconds)
        while now < lasts:
            now += draw.expovariate(rate)
            times.append(now)
        done, begin, taken = [], time.perf_counter(), iter(times)

        def go():
            client = Client(self.node.server)
            while True:
                with self.lock:
                    due = next(taken, None)
                if due is None:
                    return
                time.sleep(max(0.0, begin + due - time.perf_counter()))
                self.ask(client, begin + due, done)

        return self.figures({"loop": "open", "rate": rate}, [go] * min(64, len(times)), done)

    def figures(self, what, workers, done):
        begin, cpu = time.perf_counter(), self.node.cpu_seconds()
        threads = [threading.Thread(target=work) for work in workers]
        with PeakMemory(self.node) as memory:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        seconds, answered = time.perf_counter() - begin, [ms for status, ms in done if status == 200]
        return {
            **what,
            "requests": len(done),
            "refused": len(done) - len(answered),
            "answers_per_second": len(answered) / seconds,
            "cpu_ms": 1e3 * (self.node.cpu_seconds() - cpu) / max(1, len(answered)),
            "p50_ms": at(answered, 0.5),
            "p99_ms": at(answered, 0.99),
            "resident_mb": memory.peak / 1e6,
        }


class PeakMemory:
    """Samples the node's resident memory; `peak` in bytes."""

    def __init__(self, node, every=0.02):
        self.node, self.every, self.peak = node, every, 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        while True:
            self.peak = max(self.peak, self.node.resident_bytes())
            if self.ended.wait(self.every):
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def show(engine, run):
    at_what = f"{run['clients']} clients" if run["loop"] == "closed" else f"{run['rate']:.1f}/s"
    print(
        f"{engine:25} {run['loop']:6} {at_what:>11}: {run['answers_per_second']:7.2f} answers/s, P50 "
        f"{run['p50_ms']:7.1f} P99 "
        f"{run['p99_ms']:7.1f} ms, {run['cpu_ms']:6.1f} CPU ms, {run['resident_mb']:6.0f} MB, "
        f"{run['refused']} refused",
        flush=True,
    )


def goodput(runs, limit):
    good = [
        run["answers_per_second"]
        for run in runs
        if run["loop"] == "open" and run["p99_ms"] <= limit and run["refused"] <= 0.01 * run["requests"]
    ]
    return max(good, default=0.0)


def name_of(result):
    return f"{result['engine']}, {result['normalised']}"


def measure(world, engine, normalised, args):
    result = {"engine": engine, "normalised": normalised}
    with world.node([f"router.deadline={args.deadline}ms", *settings_of(engine)]) as node:
        load, runs = Load(node, world, args, normalised), []
        for clients in args.clients:
            runs.append(load.closed(clients))
            show(name_of(result), runs[-1])
        most = max(run["answers_per_second"] for run in runs)
        for rate in args.rates or [share * max(most, RATE_LEAST) for share in args.shares]:
            runs.append(load.open(rate))
            show(name_of(result), runs[-1])
    return {**result, "goodput": goodput(runs, args.limit), "runs": runs}


def measure_all(world, args):
    """Measures each engine under each normalisation; an unconstrained one once."""
    return [
        measure(world, engine, normalised, args)
        for engine in args.engines.split(",")
        for normalised in args.normalised
        if engine not in SAME_FOR_BOTH or normalised == args.normalised[0]
    ]


def ratios(results, first):
    """Returns the goodput of engine `first` over each other one's: with the same normalisation, and over
    the other one with the whole vocabulary, which other engines compute."""
    mine = {result["normalised"]: result["goodput"] for result in results if result["engine"] == first}
    found = []
    for result in results:
        if result["engine"] == first or result["goodput"] <= 0:
            continue
        for normalised in sorted({result["normalised"], "allowed"} & set(mine)):
            if normalised == result["normalised"] or result["normalised"] == "vocabulary":
                found.append((normalised, name_of(result), mine[normalised] / result["goodput"]))
    return found


def show_goodput(width, results, limit):
    for result in results:
        print(
            f"width {width}, {name_of(result):25} goodput at P99 of {limit:.0f} ms: "
            f"{result['goodput']:7.2f}/s"
        )
    first = results[0]["engine"]
    for normalised, name, ratio in ratios(results, first):
        print(f"width {width}, {first}, {normalised}: {ratio:.2f} x {name}")


COLOURS = ["#1b6ca8", "#c0392b", "#27ae60", "#8e44ad", "#d68910", "#444444", "#16a085", "#b5539c"]


def plot(path, results, limit):
    """Plots P99 over answers a second, both logarithmic."""
    import math

    points = [
        (run["answers_per_second"], run["p99_ms"])
        for result in results
        for run in result["runs"]
        if run["loop"] == "open" and run["answers_per_second"] > 0
    ]
    if not points:
        return
    xs, ys = [math.log10(x) for x, _ in points], [math.log10(y) for _, y in points] + [math.log10(limit)]
    low, high, bottom, top = min(xs) - 0.05, max(xs) + 0.05, min(ys) - 0.05, max(ys) + 0.05
    place = lambda x, y: (
        60 + 520 * (math.log10(x) - low) / (high - low),
        340 - 300 * (math.log10(y) - bottom) / (top - bottom),
    )
    lines = [
        (
            '<svg xmlns="http://www.w3.org/2000/svg" width="760" height="390" font-family="sans-serif" '
            'font-size="12">'
        ),
        (
            '<rect width="760" height="390" fill="white"/><rect x="60" y="40" width="520" height="300" '
            'fill="none" stroke="#999"/>'
        ),
        (
            '<text x="320" y="380" text-anchor="middle">answers a second</text><text x="60" y="25">P99, '
            'ms</text>'
        ),
    ]
    for value in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000):
        x, y = place(value, value)
        if low <= math.log10(value) <= high:
            lines.append(
                f'<line x1="{x:.1f}" y1="40" x2="{x:.1f}" y2="340" stroke="#eee"/>'
                f'<text x="{x:.1f}" y="356" text-anchor="middle">{value}</text>'
            )
        if bottom <= math.log10(value) <= top:
            lines.append(
                f'<line x1="60" y1="{y:.1f}" x2="580" y2="{y:.1f}" stroke="#eee"/>'
                f'<text x="54" y="{y + 4:.1f}" text-anchor="end">{value}</text>'
            )
    y = place(10**low, limit)[1]
    lines.append(f'<line x1="60" y1="{y:.1f}" x2="580" y2="{y:.1f}" stroke="#999" stroke-dasharray="4"/>')
    for number, result in enumerate(results):
        runs = [run for run in result["runs"] if run["loop"] == "open" and run["answers_per_second"] > 0]
        path_of = " ".join(
            f"{x:.1f},{y:.1f}" for x, y in (place(run["answers_per_second"], run["p99_ms"]) for run in runs)
        )
        colour = COLOURS[number % len(COLOURS)]
        lines.append(
            f'<polyline points="{path_of}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<text x="592" y="{60 + 20 * number}" fill="{colour}">{name_of(result)}, '
            f'{result["goodput"]:.1f}/s</text>'
        )
    open(path, "w").write("\n".join(lines) + "\n</svg>\n")


def numbers(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--shape", default="tiny", choices=("tiny", "small", "qwen05"))
    parser.add_argument(
        "--engines", default="together,copied,tree,sorted,unconstrained,plain,recompute,alone"
    )
    parser.add_argument(
        "--normalised",
        type=lambda text: text.split(","),
        default=list(NORMALISED),
        help="tokens over which probabilities are normalised, separated by commas; default: both",
    )
    parser.add_argument("--vocabulary", type=int, default=0, help="tokens of the model; 0 = the shape's")
    parser.add_argument("--codes", type=int, default=256, help="tokens of a level of an identifier")
    parser.add_argument("--widths", type=numbers(int), default=[128])
    parser.add_argument("--events", type=int, default=341, help="events of a history, of three tokens each")
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument(
        "--fresh", type=int, default=0, help="number of users, more than requests: nothing is reused"
    )
    parser.add_argument("--clients", type=numbers(int), default=[1, 2, 4])
    parser.add_argument("--shares", type=numbers(float), default=[0.3, 0.5, 0.7, 0.8, 0.9, 1.0])
    parser.add_argument("--rates", type=numbers(float), help="requests a second of the open loop")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument(
        "--requests", type=int, default=100, help="minimum of an open loop, within six times --seconds"
    )
    parser.add_argument("--limit", type=float, default=200, help="maximum P99 in milliseconds")
    parser.add_argument("--deadline", type=int, default=5000, help="deadline of a request, in milliseconds")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--plot")
    args = parser.parse_args()
    unknown = set(args.normalised) - set(NORMALISED)
    if unknown:
        parser.error(f"--normalised has {sorted(unknown)[0]!r}; expected vocabulary or allowed")
    found = {}
    for width in args.widths:
        args.width = width
        with World(args.troupe, args.shape, vocabulary=args.vocabulary, codes=args.codes) as world:
            found[f"width_{width}"] = results = measure_all(world, args)
        show_goodput(width, results, args.limit)
        if args.plot:
            name, kind = os.path.splitext(args.plot)
            plot(args.plot if len(args.widths) == 1 else f"{name}-{width}{kind}", results, args.limit)
        if args.json:  # after each width, so that an interrupted run keeps its results
            kept = {
                name: value
                for name, value in vars(args).items()
                if name not in ("troupe", "json", "plot", "width")
            }
            json.dump({"options": kept, **found}, open(args.json, "w"), indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
