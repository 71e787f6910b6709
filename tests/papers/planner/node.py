"""The planner beside every single policy on a real node: runs tests/bench/policies.py, and judges its
cells."""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
POLICIES = ROOT / "tests" / "bench" / "policies.py"
# Option of policies.py → its path in the folder of shared models and data.
SHARED = {
    "games": "data/amazon-games",
    "movies": "data/movielens-100k",
    "model": "models/tiny-ranker-games",
    "titles": "tokenizers/qwen3/golden.jsonl.gz",
}


def add_options(parser):
    parser.add_argument(
        "--no-node", dest="node", action="store_false", help="the workloads alone, without the real node"
    )
    parser.add_argument(
        "--shared", type=pathlib.Path, default=ROOT.parent / "shared", help="folder of models and data"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the real node")


def require(parser, options):
    """Ends the program if the data of the real node is not there, before the long runs begin."""
    for path in SHARED.values():
        if not (options.shared / path).exists():
            parser.error(f"--shared: {options.shared / path} does not exist; --no-node leaves the node out")


def judge(report, options):
    """Adds a row for each workload and size of memory; returns the table of policies.py."""
    with tempfile.TemporaryDirectory() as folder:
        answered = pathlib.Path(folder) / "policies.json"
        command = [sys.executable, "-B", POLICIES, "--lab", options.lab, "--rounds", options.rounds]
        for name, path in SHARED.items():
            command += [f"--{name}", options.shared / path]
        # Exit status 1: the table is there, and a cell of it is below the bound.
        done = subprocess.run([str(word) for word in [*command, "--json", answered]])
        if not answered.exists():
            sys.exit(f"{POLICIES}: exit status {done.returncode}; see above")
        table = json.loads(answered.read_text())
    add_rows(report, table)
    return table


def add_rows(report, table):
    for workload in table:
        for size, cell in workload["cells"].items():
            ratio, spread = cell["planner_over_best"], cell["spread"]
            report.add(
                "real node",
                f"{workload['workload']}, {size}: planner / {cell['best_other']}, the best",
                None,
                f"{ratio:.3f} (tokens {cell['planner_over_best_tokens']:.3f})",
                None,
                f">= 1 - {spread:.3f}, the spread",
                ratio >= 1 - spread,
            )
