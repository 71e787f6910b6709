#!/usr/bin/env python3
"""Compares simulated nodes with real ones: throughput, CPU seconds, computed tokens, hit rates and latencies.

  tests/what_if/run.sh --short
  tests/what_if/run.sh --out FOLDER [--games F] [--movies F] [--industrial F] [--ranker F] [--only WORD,...]
                         [--minutes N] [--measure | --judge] [--json FILE]

Both have the same model, catalog, memory and requests. The whole table is models x data sets x memories x
loops x policies. Four steps make it:

  1. time the passes of each model (bench calibrate)
  2. fit the host's work to profiled runs of the ranker (bench calibrate --profiles)
  3. measure the cells (bench rank --trace)
  4. simulate them (sim --compare)

Measurements are kept in FOLDER and not repeated, so a table can be made in slices of --minutes; finished
cells are judged in any case. --measure only measures, --judge only judges, --only takes cells whose names
contain one of the words. Data are folders as for import; movies get tokens from the words of their
titles. Without --ranker the smallest model is a generated one. A ranker's form must list item first and
user first as interchangeable; that of tiny-ranker-games is in tests/forms. `ours` is a data set that was
not used while the simulator was developed; it is judged separately.
"""
import argparse
import collections
import gzip
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "forms"))
from forms import options_of

DEMO = ROOT / "deploy" / "demo"
POLICIES = ["recompute", "user", "item", "bat", "planner"]
ONE_CORE = ["--set", "inference.executors=1", "--set", "inference.cores=1"]
# Error bounds of the table: for the median over all cells, and for the worst cell.
BOUNDS = {
    "throughput": (0.10, 0.25),
    "cpu_seconds": (0.10, 0.25),
    "hit_rate": (0.10, 0.25),
    "tokens_computed": (0.10, 0.25),
    "user_hits": (0.10, 0.25),
    "item_hits": (0.10, 0.25),
    "p50_ms": (0.15, 0.15),
    "p99_ms": (0.30, 0.30),
}
# Figures that must be equal with one request at a time. Two things depend on time even then: the
# planner's choice, and the reload of hot items (pool.hot_share).
EXACT = ["tokens_total", "tokens_computed", "hit_rate", "user_plans", "user_hits", "item_hits"]
LOOPS = {
    "alone": ["--closed", "--in-flight", "1"],
    "closed": ["--closed", "--in-flight", "4"],
    "half": 0.5,
    "busy": 0.8,
}
TRACE_RATE = 100  # requests a second, before --speed


def run(words, check=True):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done


class Model:
    """A model directory, the formats of its weights and blocks, and the part of a data set to use.

    `items`: how many of the most used items, whose blocks are precomputed before the clock starts; 0 = all.
    """

    def __init__(self, name, folder, requests, items=0, candidates=100, settings=(), formats=()):
        self.name, self.folder, self.requests, self.items, self.candidates = (
            name,
            folder,
            requests,
            items,
            candidates,
        )
        self.settings = [word for setting in settings for word in ("--set", setting)] + options_of(folder)
        self.formats = list(formats)


class Data:
    def __init__(self, name, folder, start, held_out=False):
        self.name, self.folder, self.start, self.held_out = name, folder, start, held_out


def made_model(lab, out, shape):
    folder = out / f"model-{shape}"
    if not folder.exists():
        run([lab, "bench", "make-model", "--shape", shape, "--out", folder])
    return folder


def rows_of_tsv(file):
    with gzip.open(file, "rt") as lines:
        names = next(lines).rstrip("\n").split("\t")
        return [dict(zip(names, line.rstrip("\n").split("\t"))) for line in lines]


def tokens_of(folder, row):
    """Returns an item's tokens in the form of benchmark models: four levels of 256, after 17 other tokens."""
    if "sid" in row:
        return [17 + 256 * level + int(code) for level, code in enumerate(row["sid"].split(","))]
    return row["tokens"]


def reduced(out, data, items):
    """Writes the most used items and their histories as JSON lines; returns the folder."""
    folder = out / f"{data.name}-{items}"
    if folder.exists():
        return folder
    lines = data.folder / "items.jsonl"
    known = (
        {row["id"]: row for row in map(json.loads, lines.read_text().splitlines())}
        if lines.exists()
        else {row["item_id"]: row for row in rows_of_tsv(data.folder / "items.tsv.gz")}
    )
    histories = {
        row["user_id"]: row["items"].split() for row in rows_of_tsv(data.folder / "sequences.tsv.gz")
    }
    uses = collections.Counter(item for history in histories.values() for item in history if item in known)
    kept = [item for item, _ in uses.most_common(items)]
    folder.mkdir()
    with open(folder / "items.jsonl", "w") as file:
        for number, item in enumerate(kept):
            file.write(
                json.dumps(
                    {
                        "id": item,
                        "title": item,
                        "tokens": tokens_of(data.folder, known[item]),
                        "identifier": 1041 + number,
                    }
                )
                + "\n"
            )
    chosen = set(kept)
    with open(folder / "users.jsonl", "w") as file:
        for user, history in histories.items():
            history = [item for item in history if item in chosen]
            if len(history) > data.start:
                file.write(json.dumps({"id": user, "history": history}) + "\n")
    return folder


def made_movies(out, movies):
    """Writes a catalog whose items have one token for each word of title and genres, folded into the
    vocabulary."""
    folder = out / "movies"
    if folder.exists():
        return folder
    folder.mkdir()
    with gzip.open(movies / "items.tsv.gz", "rt") as lines, open(folder / "items.jsonl", "w") as items:
        next(lines)
        for line in lines:
            number, title, _, genres = line.rstrip("\n").split("\t")
            tokens = [20 + zlib.crc32(word.lower().encode()) % 1000 for word in f"{title} {genres}".split()]
            items.write(
                json.dumps({"id": number, "title": title, "tokens": tokens, "identifier": 1044 + int(number)})
                + "\n"
            )
    for name in ("ratings.tsv.gz", "sequences.tsv.gz"):
        (folder / name).symlink_to((movies / name).resolve())
    return folder


class Bench:
    """What is measured and simulated, kept in a folder."""

    def __init__(self, lab, out, paced_by=None):
        self.lab, self.out, self.paced_by = lab, out, paced_by

    def trace(self, data, requests, candidates):
        file = self.out / f"{data.name}-{requests}-{candidates}.jsonl.gz"
        if not file.exists():
            run(
                [
                    self.lab,
                    "trace",
                    "convert",
                    "--data",
                    data.folder,
                    "--out",
                    file,
                    "--rate",
                    TRACE_RATE,
                    "--views",
                    "3",
                    "--requests",
                    requests,
                    "--start",
                    data.start,
                    "--candidates",
                    candidates,
                    "--return-share",
                    "0.5",
                    "--return-after",
                    "2",
                ]
            )
        return file

    def measure(self, name, model, data, trace, policies, memory, loop, profile=False):
        """Returns the file of the result; measures if the file does not exist."""
        file = self.out / f"{name}.json"
        if not file.exists():
            words = [
                self.lab,
                "bench",
                "rank",
                "--model",
                model.folder,
                "--data",
                data.folder,
                "--trace",
                trace,
                *ONE_CORE,
                *model.settings,
                "--policy",
                ",".join(policies),
                "--json",
                file,
                *loop,
            ]
            before = self.pace()
            run(words + (["--memory", memory] if memory else []) + (["--profile"] if profile else []))
            if before:
                file.with_suffix(".pace").write_text(json.dumps([before, self.pace()]) + "\n")
        return file

    def pace(self):
        """Returns the microseconds that one model's passes take now; the pace of a shared machine changes."""
        if not self.paced_by:
            return 0
        timed = run(
            [
                self.lab,
                "bench",
                "calibrate",
                "--model",
                self.paced_by,
                "--rounds",
                "10",
                "--out",
                "/dev/null",
                "--json",
                "-",
            ]
        )
        return sum(row["mean_us"] for row in json.loads(timed.stdout)["runs"])

    def pace_at(self, files):
        """Returns the mean pace before and after these measurements; 0 = unknown."""
        paces = [
            pace
            for file in files
            if file.with_suffix(".pace").exists()
            for pace in json.loads(file.with_suffix(".pace").read_text())
        ]
        return statistics.mean(paces) if paces else 0

    def simulate(self, measured, device, cores, bounds=()):
        """Returns policy and figures of each run, and the finished process: did bounds and promises hold?"""
        compared = measured.with_suffix(".compared")
        done = run(
            [
                self.lab,
                "sim",
                "--compare",
                measured,
                "--device",
                device,
                "--cores",
                cores,
                "--json",
                compared,
                *[word for bound in bounds for word in ("--bound", bound)],
            ],
            check=False,
        )
        if not compared.exists():
            sys.exit(done.stdout + done.stderr)
        return json.loads(compared.read_text())["compared"], done


def bytes_of(result):
    json_file = json.loads(result.read_text())
    return json_file["item_bytes"], json_file["user_bytes"], json_file["pool_bytes"]


# ---- the short form ----


def short(options):
    failed = []
    with tempfile.TemporaryDirectory(prefix="troupe-what-if-") as name:
        out = pathlib.Path(name)
        bench = Bench(options.lab, out)
        # No reload of hot items between requests, because it depends on time.
        model, data = Model("demo", DEMO / "model", 150, settings=["pool.hot_share=0"]), Data(
            "world", DEMO / "world", 3
        )
        trace = bench.trace(data, model.requests, 20)
        files = []
        for size, memory in (("all", None), ("short", "1MiB")):
            for policies in (POLICIES[:-1], POLICIES[-1:]):
                files.append(
                    (
                        policies,
                        bench.measure(
                            f"{size}-{len(policies)}",
                            model,
                            data,
                            trace,
                            policies,
                            memory,
                            LOOPS["alone"],
                            profile=True,
                        ),
                    )
                )
        timed, device = out / "timed.txt", out / "device.txt"
        run([options.lab, "bench", "calibrate", "--model", model.folder, "--rounds", "2", "--out", timed])
        run(
            [
                options.lab,
                "bench",
                "calibrate",
                "--profiles",
                ",".join(str(file) for _, file in files),
                "--device",
                timed,
                "--machine-cores",
                "2",
                "--out",
                device,
            ]
        )
        for policies, file in files:
            # With a full pool the result may differ by a chunk or two: it depends on when the pool was full.
            exact = [f"{figure}={'0' if file.stem.startswith('all') else '0.05'}" for figure in EXACT]
            exact = exact if policies != ["planner"] else ["tokens_computed=0.25"]
            runs, done = bench.simulate(file, device, 2, [*exact, "cpu_seconds=1.5", "throughput=4"])
            print(done.stdout, end="")
            if done.returncode != 0:
                failed.append(file.stem)
    if failed:
        sys.exit(f"bounds exceeded in {', '.join(failed)}")
    print("time-independent figures are equal; times are within their bounds")


# ---- the table ----


class Cell:
    """One model, data set, memory and loop, under all policies or, in an open loop, one of them."""

    def __init__(self, model, data, size, loop, policy):
        self.model, self.data, self.size, self.loop, self.policy = model, data, size, loop, policy
        self.name = "-".join([model.name, data.name, size, loop] + ([policy] if policy else []))


def cells_of(out, models, sets, only):
    for model in models:
        for whole in sets:
            data = whole
            if model.items > 0:
                data = Data(
                    f"{whole.name}{model.items}",
                    reduced(out, whole, model.items),
                    whole.start,
                    whole.held_out,
                )
            for size in ("all", "short"):
                for loop, how in LOOPS.items():
                    for policy in [None] if isinstance(how, list) else POLICIES:
                        cell = Cell(model, data, size, loop, policy)
                        if not only or any(word in cell.name for word in only):
                            yield cell


def memory_of(bench, model, data, trace, size):
    if size == "all":
        return None
    whole = bench.measure(
        f"{model.name}-{data.name}-all-closed", model, data, trace, POLICIES, None, LOOPS["closed"]
    )
    items, _, _ = bytes_of(whole)
    return max(1 << 20, items * 2 // 5)


def measure(bench, cell):
    trace = bench.trace(cell.data, cell.model.requests, cell.model.candidates)
    memory = memory_of(bench, cell.model, cell.data, trace, cell.size)
    if cell.policy is None:
        return bench.measure(cell.name, cell.model, cell.data, trace, POLICIES, memory, LOOPS[cell.loop])
    closed = bench.measure(
        f"{cell.model.name}-{cell.data.name}-{cell.size}-closed",
        cell.model,
        cell.data,
        trace,
        POLICIES,
        memory,
        LOOPS["closed"],
    )
    capacity = next(
        run["qps"] for run in json.loads(closed.read_text())["runs"] if run["policy"] == cell.policy
    )
    speed = LOOPS[cell.loop] * capacity / TRACE_RATE
    return bench.measure(
        cell.name, cell.model, cell.data, trace, [cell.policy], memory, ["--speed", f"{speed:.4f}"]
    )


def timed_passes(bench, model):
    timed = bench.out / f"{model.name}.timed"
    if not timed.exists():
        run([bench.lab, "bench", "calibrate", "--model", model.folder, "--out", timed, *model.formats])
    return timed


def profiled_runs(bench, model, data):
    """Measures one request at a time with few, more and many candidates, with too little memory, and at
    half load.

    Half load lets the processors idle between requests.
    """

    def fit(name, candidates, policies, memory=None, loop=LOOPS["alone"]):
        return bench.measure(
            f"fit-{name}",
            model,
            data,
            bench.trace(data, 400, candidates),
            policies,
            memory,
            loop,
            profile=True,
        )

    files = [fit(candidates, candidates, POLICIES) for candidates in (20, 100, 300)]
    items, _, _ = bytes_of(files[1])
    files.append(fit("short", 100, POLICIES, items * 2 // 5))
    for name, policy, memory, of in (
        ("recompute", "recompute", None, files[1]),
        ("item", "item", None, files[1]),
        ("short", "item", items * 2 // 5, files[3]),
    ):
        alone = next(run["qps"] for run in json.loads(of.read_text())["runs"] if run["policy"] == policy)
        files.append(fit(f"half-{name}", 100, [policy], memory, ["--speed", f"{alone / 2 / TRACE_RATE:.4f}"]))
    return files


def device_of(bench, models, model, data):
    """Returns the device file of a model: its own timed passes, and the host's work of the first model."""
    timed = timed_passes(bench, model)
    if model is not models[0]:
        whole = device_of(bench, models, models[0], data).read_text().splitlines()
        host = [line for line in whole if line.startswith(("host_", "wait_us", "idle_share"))]
        device = bench.out / f"{model.name}.device"
        device.write_text(timed.read_text() + "\n".join(host) + "\n")
        return device
    device = bench.out / f"{model.name}.device"
    if not device.exists():
        files = profiled_runs(bench, model, data)
        print(
            run(
                [
                    bench.lab,
                    "bench",
                    "calibrate",
                    "--profiles",
                    ",".join(map(str, files)),
                    "--device",
                    timed,
                    "--machine-cores",
                    "2",
                    "--out",
                    device,
                ]
            ).stdout
        )
    return device


def at_pace(device, slower, out):
    """Writes the device at another pace: times multiplied by `slower`, rates divided by it."""
    lines = []
    for line in device.read_text().splitlines():
        key, _, rest = line.partition(": ")
        value, *comment = rest.split("  #", 1)
        rate = key.startswith(("peak_", "bandwidth"))
        if rate or key.startswith("host_") or key in ("launch_us", "wait_us", "idle_share"):
            numbers = [float(word) / slower if rate else float(word) * slower for word in value.split()]
            line = f"{key}: {' '.join(map(repr, numbers))}" + "".join("  #" + text for text in comment)
        lines.append(line)
    out.write_text("\n".join(lines) + "\n")
    return out


def rows_of(cell, compared):
    for run_of in compared:
        for figure, value in run_of["figures"].items():
            yield {
                "model": cell.model.name,
                "data": cell.data.name,
                "held_out": cell.data.held_out,
                "memory": cell.size,
                "loop": cell.loop,
                "policy": run_of["policy"],
                "figure": figure,
                **value,
            }


def summary(rows):
    """Returns count, median error and largest error for each figure."""
    errors = {}
    for row in rows:
        if row["figure"] in BOUNDS and row["error"] is not None:
            errors.setdefault(row["figure"], []).append(abs(row["error"]))
    return {
        figure: {"cells": len(all_of), "median": statistics.median(all_of), "worst": max(all_of)}
        for figure, all_of in errors.items()
    }


def tell(title, sums):
    print(f"\n{title}\n{'figure':18}{'cells':>6}{'median':>9}{'worst':>9}   bounds")
    missed = []
    for figure, (median, worst) in BOUNDS.items():
        if figure not in sums:
            continue
        at = sums[figure]
        held = at["median"] <= median and at["worst"] <= worst
        print(
            f"{figure:18}{at['cells']:>6}{100 * at['median']:>8.1f}%{100 * at['worst']:>8.1f}%   "
            f"{100 * median:.0f} %, {100 * worst:.0f} %{'' if held else '   missed'}"
        )
        if not held:
            missed.append(figure)
    return missed


def print_rows(rows):
    figures = ["throughput", "cpu_seconds", "tokens_computed", "hit_rate", "p50_ms", "p99_ms"]
    print(f"{'cell':44}" + "".join(f"{figure:>26}" for figure in figures))
    cells = {}
    for row in rows:
        key = f"{row['model']} {row['data']} {row['memory']} {row['loop']} {row['policy']}"
        cells.setdefault(key, {})[row["figure"]] = row
    for key, of in cells.items():

        def text(figure):
            row = of[figure]
            error = "" if row["error"] is None else f" {100 * row['error']:+.0f}%"
            return f"{row['measured']:.4g} / {row['simulated']:.4g}{error}"

        print(f"{key:44}" + "".join(f"{text(figure):>26}" for figure in figures))


def table(options):
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    ranker = options.ranker or made_model(options.lab, out, "tiny")
    bench = Bench(options.lab, out, ranker)
    int8 = ["model.weights=int8"]
    models = [
        Model("ranker", ranker, 800),
        Model("small", made_model(options.lab, out, "small"), 100, items=1000),
        Model(
            "qwen05",
            made_model(options.lab, out, "qwen05"),
            16,
            items=200,
            candidates=20,
            settings=int8,
            formats=["--weights", "int8"],
        ),
    ]
    sets = [Data("games", options.games, 8), Data("industrial", options.industrial, 4)]
    if options.movies:
        sets.append(Data("movies", made_movies(out, options.movies), 20))
    if options.ours:
        sets.append(Data("ours", options.ours, 6, held_out=True))
    sets = [data for data in sets if data.folder]
    ends = time.monotonic() + 60 * options.minutes
    cells = list(cells_of(out, models, sets, options.only))
    if not options.judge:
        profiled_runs(bench, models[0], sets[0])
        for cell in cells:
            if time.monotonic() < ends:
                timed_passes(bench, cell.model)
                measure(bench, cell)
    if options.measure:
        return
    judge(bench, models, sets, cells, options)


def judge(bench, models, sets, cells, options):
    rows, paces = [], []
    for cell in cells:
        if (bench.out / f"{cell.name}.json").exists():
            device, file = device_of(bench, models, cell.model, sets[0]), measure(bench, cell)
            # Use the pace of the machine during the cell, not its pace when the passes were timed.
            pace, then = bench.pace_at([file]), bench.pace_at(profiled_runs(bench, models[0], sets[0]))
            if pace and then:
                paces.append(pace / then)
                device = at_pace(device, pace / then, file.with_suffix(".device"))
            compared, done = bench.simulate(file, device, 2)
            if "promise" in done.stdout:
                sys.exit(done.stdout)
            rows.extend(rows_of(cell, compared))
    print_rows(rows)
    if paces:
        print(
            f"\nduring the cells, passes took {min(paces):.2f} to {max(paces):.2f} times (median "
            f"{statistics.median(paces):.2f}) as long as in the fit"
        )
    seen = [row for row in rows if not row["held_out"]]
    missed = tell("data sets used in development", summary(seen))
    if len(seen) < len(rows):
        missed += tell(
            "a data set not used in development", summary([row for row in rows if row["held_out"]])
        )
    if options.json:
        options.json.write_text(json.dumps({"summary": summary(seen), "rows": rows}, indent=1) + "\n")
    if missed:
        sys.exit(f"bounds exceeded: {', '.join(sorted(set(missed)))}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", type=pathlib.Path, default=ROOT / "build/deploy/troupe-lab")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    for name in ("games", "movies", "industrial", "ours", "ranker", "json"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    if options.short:
        return short(options)
    if not options.out or not options.games:
        parser.error("expected --short, or --out and at least --games")
    return table(options)


if __name__ == "__main__":
    main()
