"""Converts random checkpoints with `troupe convert --check` and counts those that do not agree."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from python_packages import restart_or_skip

restart_or_skip("numpy")
CASES = 4


def convert(troupe, source, model, folder):
    checkpoint, bindings = model.write(folder)
    golden = folder / "golden.json"
    golden.write_text(json.dumps({"cases": [model.case() for _ in range(CASES)]}))
    command = [troupe, "convert", "--from", source, "--checkpoint", checkpoint, "--config", bindings]
    command += ["--out", folder / "model", "--check", golden]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def main(source, make):
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True, help="the program")
    parser.add_argument("--models", type=int, default=100, help="number of random models")
    parser.add_argument("--first", type=int, default=1, help="seed of the first")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.first, options.first + options.models):
        with tempfile.TemporaryDirectory() as folder:
            run = convert(options.troupe, source, make(seed), pathlib.Path(folder))
        if run.returncode != 0:
            failed += 1
            print(f"seed {seed}: {run.stderr.strip() or run.stdout.strip()[-400:]}")
    print(f"{options.models} models of {source}, {failed} with differences")
    sys.exit(1 if failed else 0)
