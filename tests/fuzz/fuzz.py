"""Runs libFuzzer programs one after the other and reports on them; tests/fuzz/run.sh builds them and
calls this."""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
DICTIONARIES = HERE / "dictionaries"
BOUNDS = ["-max_len=4096", "-timeout=10", "-rss_limit_mb=1024", "-malloc_limit_mb=256"]
KEPT_BYTES, KEPT_FILES = 1024, 48  # limits of a committed corpus: bytes of a file, number of files


def targets_of(build, wanted):
    found = {
        p.name[len("fuzz_") :]: p
        for p in sorted(build.glob("fuzz_*"))
        if p.name != "fuzz_replay" and p.is_file()
    }
    unknown = [name for name in wanted if name not in found]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: no such target; expected {', '.join(found)}")
    return {name: found[name] for name in wanted or found}


def number(pattern, text, default=0):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else default


def fuzz(build, name, program, seconds):
    """Fuzzes one target for `seconds`. `failed` in the result is the path of the failing input, or None."""
    work, failures = build / "corpus" / name, build / "failures" / name
    work.mkdir(parents=True, exist_ok=True)
    failures.mkdir(parents=True, exist_ok=True)
    before = set(failures.iterdir())
    command = [
        program,
        work,
        CORPUS / name,
        f"-max_total_time={seconds}",
        f"-artifact_prefix={failures}/",
        "-print_final_stats=1",
        *BOUNDS,
    ]
    if (DICTIONARIES / f"{name}.dict").exists():
        command.append(f"-dict={DICTIONARIES / name}.dict")
    begin = time.monotonic()
    run = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    took = time.monotonic() - begin
    failed = sorted(str(p) for p in set(failures.iterdir()) - before)
    if run.returncode and not failed:
        failed = ["no failing input was saved"]
    if failed:
        (failures / "log.txt").write_text(run.stdout)
    executions = number(r"stat::number_of_executed_units:\s+(\d+)", run.stdout)
    return {
        "target": name,
        "executions": executions or number(r"#(\d+)\t", run.stdout),
        "seconds": round(took, 1),
        "edges": number(r"cov: (\d+)", run.stdout),
        "edges_in_program": number(r"\((\d+) inline 8-bit", run.stdout),
        "features": number(r"ft: (\d+)", run.stdout),
        "corpus": number(r"corp: (\d+)/", run.stdout),
        "peak_mb": number(r"stat::peak_rss_mb:\s+(\d+)", run.stdout, number(r"rss: (\d+)Mb", run.stdout)),
        "failed": failed[0] if failed else None,
    }


def row(r):
    rate = r["executions"] / max(r["seconds"], 0.1)
    return (
        f"{r['target']:9} {r['executions']:>12,} {r['seconds']:>8.1f} {rate:>11,.0f} "
        f"{r['edges']:>6}/{r['edges_in_program']:<6} {r['features']:>8} {r['corpus']:>6} {r['peak_mb']:>7}"
    )


def run_all(build, targets, minutes, json_path):
    print(
        f"{'target':9} {'executions':>12} {'seconds':>8} {'a second':>11} {'edges':>13} "
        f"{'features':>8} {'corpus':>6} "
        f"{'peak MB':>7}",
        flush=True,
    )
    results = []
    for name, program in targets.items():
        results.append(fuzz(build, name, program, max(1, round(minutes * 60 / len(targets)))))
        print(row(results[-1]), flush=True)
    failed = [r for r in results if r["failed"]]
    print(f"{sum(r['executions'] for r in results):,} executions, {len(failed)} targets failed")
    for r in failed:
        print(
            f"{r['target']} failed; log in {build}/failures/{r['target']}/log.txt; run it again by:\n"
            f"  {build}/fuzz_{r['target']} {r['failed']}\n"
            f"  build/tests/fuzz/targets/fuzz_replay --one {r['target']} {r['failed']}"
        )
    if json_path:
        json_path.write_text(
            json.dumps({"sanitizers": build.name == "build-fuzz", "targets": results}, indent=1) + "\n"
        )
    return 1 if failed else 0


def reached(program, folders):
    """Returns what each input of the folders reaches: path -> numbers of edges (and of other features)."""
    with tempfile.TemporaryDirectory() as scratch:
        control = pathlib.Path(scratch, "control")
        pathlib.Path(scratch, "out").mkdir()
        subprocess.run(
            [
                program,
                "-set_cover_merge=1",
                "-use_counters=0",
                "-use_cmp=0",
                f"-max_len={KEPT_BYTES}",
                *BOUNDS[1:],
                f"-merge_control_file={control}",
                pathlib.Path(scratch, "out"),
                *folders,
            ],
            check=True,
            capture_output=True,
        )
        lines = control.read_text(errors="replace").splitlines()
    count = int(lines[0])
    paths = lines[2 : 2 + count]
    sets = {}
    for line in lines[2 + count :]:
        words = line.split()
        if words[0] == "FT":
            sets[paths[int(words[1])]] = {int(w) for w in words[2:]}
    return sets


def minimise(build, targets):
    """Replaces generated inputs by few small ones that together reach the most."""
    for name, program in targets.items():
        sets = {
            p: s
            for p, s in reached(program, [CORPUS / name, build / "corpus" / name]).items()
            if os.path.getsize(p) <= KEPT_BYTES
        }
        everything, covered, kept = set().union(*sets.values()), set(), {}
        while len(kept) < KEPT_FILES and covered != everything:
            best = max(sets, key=lambda p: (len(sets[p] - covered), -os.path.getsize(p), p))
            kept[best] = pathlib.Path(best).read_bytes()
            covered |= sets[best]
        for path in (CORPUS / name).iterdir():
            if re.fullmatch("[0-9a-f]{12}", path.name):  # other names: findings, kept
                path.unlink()
        for data in kept.values():
            (CORPUS / name / hashlib.sha1(data).hexdigest()[:12]).write_bytes(data)
        print(
            f"{name:9} {len(kept):>4} files {sum(map(len, kept.values())):>7} bytes, "
            f"{len(covered)} of {len(everything)} known edges"
        )
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("minutes_and_targets", nargs="*")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--minimise", action="store_true")
    options = parser.parse_args()
    words = options.minutes_and_targets
    os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=16")
    if options.minimise:
        return minimise(options.build, targets_of(options.build, words))
    if not words or not re.fullmatch(r"\d+(\.\d+)?", words[0]):
        sys.exit("tests/fuzz/run.sh MINUTES [--fast] [--json FILE] [TARGET...]")
    return run_all(options.build, targets_of(options.build, words[1:]), float(words[0]), options.json)


if __name__ == "__main__":
    sys.exit(main())
