#!/usr/bin/env python3
"""FLAME's Table 3 (features behind a narrow link: features.py), Table 4 (fused kernels against a
converted ONNX model) and Table 5 (fixed shapes): the paper's on a GPU beside Troupe's on this CPU.

    flame.py --short
    flame.py --peers FOLDER [--rounds N] [--threads 1,2] [--requests N]
    flame.py --results climber.json [--shapes-results shapes.txt] [--features-results features.json]

The paper's numbers are of an RTX 4090D and a model whose width it does not state, so only ratios can be
compared. The baseline is of the same kind: the model exported to ONNX, run by an engine that reads it
(onnxruntime instead of TensorRT), here with its best settings. See README.md.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(HERE)
import short  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
# Thousands of user-item pairs a second, latency and its 99th percentile in ms.
TABLE4 = {
    "base": [
        ("ONNX Model Conversion", 180.5, 5.69, 8.16),
        ("TensorRT API Impl.", 588.8, 1.51, 1.54),
        ("TensorRT API Impl. + Kernel Fusion", 843.8, 1.24, 1.28),
    ],
    "long": [
        ("ONNX Model Conversion", 220.2, 18.57, 18.94),
        ("TensorRT API Impl.", 756.7, 5.49, 5.56),
        ("TensorRT API Impl. + Kernel Fusion", 1381.4, 3.03, 3.12),
    ],
}
TABLE5 = [("Default (Implicit Shape)", 912, 13.6, 49), ("DSO (Explicit Shape)", 1190.4, 7.8, 35)]
SIZES = {"base": "512+128", "long": "1024+512"}


def line(name, pairs, latency, tail, over):
    print(f"  {name:44} {pairs / 1e3:9.1f} k {latency:9.2f} ms {tail:9.2f} ms {over:8.2f} x")


def is_baseline(row):
    return row["engine"].startswith("onnxruntime")


def table4(rows):
    for shape, paper in TABLE4.items():
        print(f"\nTable 4, {shape} ({SIZES[shape]}): pairs/s, latency, P99, over ONNX")
        for name, pairs, latency, tail in paper:
            line("paper: " + name, 1e3 * pairs, latency, tail, pairs / paper[0][1])
        for threads in sorted({row["threads"] for row in rows if row["shape"] == shape}):
            here = [row for row in rows if row["shape"] == shape and row["threads"] == threads]
            baseline = next(row for row in here if is_baseline(row))
            for row in sorted(here, key=lambda row: row["pairs_per_second"]):
                note = ", history cached" if row["workload"] == "history cached" else ""
                line(
                    f"{row['engine']}{note}, {threads} thread{'s' * (threads > 1)}",
                    row["pairs_per_second"],
                    row["wall_ms"],
                    row["wall_ms_p99"],
                    row["pairs_per_second"] / baseline["pairs_per_second"],
                )


def table5(lines):
    print(
        "\nTable 5, candidates of 128, 256, 512 and 1,024 alike, history of 1,024: pairs/s, latency, "
        "P99, ratio to the default"
    )
    for name, pairs, latency, tail in TABLE5:
        line("paper: " + name, 1e3 * pairs, latency, tail, pairs / TABLE5[0][1])
    rows = [json.loads(text) for text in lines]
    ways = {}
    for row in rows:  # if there are several runs, the first has the paper's sizes
        if "way" in row:
            ways.setdefault(row["way"], row)
    for way, name in (
        ("dynamic", "Troupe: any size"),
        ("fixed", "Troupe: fixed shapes"),
        ("first", "Troupe: any size, memory not allocated yet"),
    ):
        row = ways[way]
        line(
            name[:44],
            row["pairs_per_cpu_second"],
            row["latency_ms"],
            row["p99_ms"],
            row["pairs_per_cpu_second"] / ways["dynamic"]["pairs_per_cpu_second"],
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers")
    parser.add_argument("--results")
    parser.add_argument("--shapes-results")
    parser.add_argument("--features-results")
    parser.add_argument("--rounds", default="100")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--requests", default="200")
    parser.add_argument("--short", action="store_true", help="one bound for each mechanism: a minute")
    parser.add_argument("--lab", default=f"{ROOT}/build/deploy/troupe-lab")
    parser.add_argument("--tests", default=f"{ROOT}/build/tests", help="folder of the benchmarks")
    options = parser.parse_args()
    if options.short:
        return short.main(options.lab, options.tests)
    if not options.peers and not options.results:
        sys.exit(
            "flame.py: expected --peers FOLDER (tests/bench/peers/setup.sh FOLDER installs them) or "
            "--results FILE"
        )
    results = options.results or os.path.join(tempfile.mkdtemp(), "climber.json")
    if not options.results:
        subprocess.check_call(
            [
                f"{ROOT}/tests/bench/climber.py",
                "--peers",
                options.peers,
                "--rounds",
                options.rounds,
                "--threads",
                options.threads,
                "--json",
                results,
            ],
            stdout=subprocess.DEVNULL,
        )
    if options.features_results:
        subprocess.check_call([f"{HERE}/features.py", "--results", options.features_results])
    elif options.peers:
        subprocess.call([f"{HERE}/features.py", "--troupe", f"{ROOT}/build/deploy/troupe"])
    table4(json.load(open(results)))
    if options.shapes_results:
        table5(open(options.shapes_results))
    elif options.peers:
        bench = [
            f"{ROOT}/build/tests/shapes_bench",
            f"{options.peers}/models/flame-long",
            "1024",
            options.requests,
        ]
        table5(subprocess.check_output(bench, text=True).splitlines())
    return 0


if __name__ == "__main__":
    sys.exit(main())
