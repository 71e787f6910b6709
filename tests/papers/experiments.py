"""Runs lists of experiments with `troupe-lab sim --experiments`."""

import json
import os
import subprocess
import sys
import tempfile


def run(lab, experiments, threads):
    """Returns the program's commit, and name → result."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = os.path.join(folder, "asked.json"), os.path.join(folder, "answered.json")
        with open(asked, "w") as file:
            json.dump(experiments, file)
        command = [lab, "sim", "--experiments", asked, "--threads", str(threads), "--json", answered]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit status {done.returncode}; see above")
        with open(answered) as file:
            document = json.load(file)
    return document["commit"], {result["name"]: result for result in document["results"]}


def run_kept(path, lab, experiments, threads, batch=16):
    """Like `run`; `path`: results that an earlier call kept are taken from there, and new ones are added in
    small batches, so that an interrupted run can be resumed. None = nothing is kept."""
    if not path:
        return run(lab, experiments, threads)
    kept = {"commit": "", "runs": []}
    if os.path.exists(path):
        with open(path) as file:
            kept = json.load(file)
    known = {one["result"]["name"]: one["result"] for one in kept["runs"] if one["asked"] in experiments}
    missing = [e for e in experiments if e["name"] not in known]
    while missing:
        now, missing = missing[:batch], missing[batch:]
        kept["commit"], results = run(lab, now, threads)
        kept["runs"] += [dict(asked=e, result=results[e["name"]]) for e in now]
        known.update(results)
        with open(path, "w") as file:
            json.dump(kept, file)
    return kept["commit"], known
