"""Runs over HTTP: nodes with other search engines under load (tests/bench/generate_load.py). A result is
named "load shape width/variant, normalisation"."""

import argparse
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import generate_load  # noqa: E402
from generate_world import World  # noqa: E402

# Variant → the engine of generate_load.py.
ENGINES = {
    "troupe": "together",
    "independent": "copied",
    "tree": "tree",
    "full sort": "sorted",
    "unconstrained": "unconstrained",
    "no reuse": "recompute",
    "no batches": "alone",
}
EVENTS = 1000  # of three tokens each


def key(shape, width, variant, normalised="allowed"):
    return f"load {shape} {width}/{variant}, {'vocabulary' if variant == 'unconstrained' else normalised}"


def options(shape, width, variants, limit, seconds):
    return argparse.Namespace(
        shape=shape,
        width=width,
        engines=",".join(ENGINES[variant] for variant in variants),
        normalised=["vocabulary", "allowed"],
        events=EVENTS,
        users=20,
        fresh=0,
        clients=[1, 2],
        shares=[0.3, 0.5, 0.7, 0.8, 0.9, 1.0],
        rates=None,
        seconds=seconds,
        requests=100,
        limit=limit,
        deadline=5000,
        seed=5,
    )


def flat(result):
    """Returns goodput, CPU time of a lone client's requests, and the node's memory by rate."""
    alone = next(run for run in result["runs"] if run["loop"] == "closed")
    rates = sorted((run for run in result["runs"] if run["loop"] == "open"), key=lambda run: run["rate"])
    return dict(
        goodput=result["goodput"],
        cpu_ms=alone["cpu_ms"],
        p50_ms=alone["p50_ms"],
        memory_low_mb=rates[0]["resident_mb"],
        memory_high_mb=rates[-1]["resident_mb"],
    )


def run(troupe, shape, width, variants, limit, seconds):
    """Returns name → result, and generate_load's own results for its plot."""
    args = options(shape, width, variants, limit, seconds)
    with World(troupe, shape) as world:
        results = generate_load.measure_all(world, args)
    names = {engine: variant for variant, engine in ENGINES.items()}
    found = {
        key(shape, width, names[result["engine"]], result["normalised"]): flat(result) for result in results
    }
    return found, results
