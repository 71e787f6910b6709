"""Judges the runs of `splits.py`. A cost is milliseconds per request: CPU time of all processes, plus the
time of the missed rows on the link. A part of a run is {seed: {system: cost}}."""
import math
import statistics

AGAIN = " again"  # ends the name of a second copy of a system, whose difference is the noise
START = 0.9  # the rows' share at the start, of a node whose policy moves it: far from the best one
# Clusters with one split, so that only the routing differs.
EARLIEST, JOINT, LOAD = "static:0.5", "static:0.5+joint", "static:0.5+load"
LOST = "static:0.9"  # the null model: pools that lose most users' keys and values


def twin_of(name):
    return name.removesuffix(AGAIN)


def error_of(values):
    """Returns the standard error of the mean; 0 for one value."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def statics(part):
    some = next(iter(part.values()))
    return [name for name in some if name.startswith("static:") and not name.endswith(AGAIN)]


def best_static(costs):
    """Returns the static split with the least cost of a seed, in hindsight."""
    return min((name for name in costs if name in statics({0: costs})), key=costs.get)


def twin_noise(part):
    """Returns by how much two copies of one system differ: root mean square over the seeds."""
    apart = [
        costs[name] / costs[twin_of(name)] - 1
        for costs in part.values()
        for name in costs
        if name.endswith(AGAIN)
    ]
    return math.sqrt(statistics.mean(value * value for value in apart)) if apart else 0.0


def compare(part, system, base):
    """Returns the mean ratio of the costs over the seeds, and its noise: two standard errors, which are at
    least those that copies of one system show. `base`: a system, or a function of a seed's costs."""
    base_of = base if callable(base) else lambda costs: base
    ratios = [costs[system] / costs[base_of(costs)] for costs in part.values()]
    noise = 2 * max(error_of(ratios), twin_noise(part) / math.sqrt(len(ratios)))
    return statistics.mean(ratios), noise


def within(part, system, base):
    ratio, noise = compare(part, system, base)
    return ratio <= 1 + noise


def row(what, part, system, base, holds):
    ratio, noise = compare(part, system, base)
    return {"what": what, "ratio": ratio, "noise": noise, "holds": holds}


def judge_split(name, part):
    start = f"static:{START}"
    yield row(
        f"{name}: marginal costs no more than the best static split in hindsight, by more than noise",
        part,
        "marginal",
        best_static,
        within(part, "marginal", best_static),
    )
    yield row(
        f"{name}, null: {start}, which is marginal without a move, misses that",
        part,
        start,
        best_static,
        not within(part, start, best_static),
    )


def judge_constants(parts):
    """A static split that is within noise of the best one in every part needs no policy."""
    for split in statics(next(iter(parts.values()))):
        worst = max(parts.values(), key=lambda part: compare(part, split, best_static)[0])
        passes = all(within(part, split, best_static) for part in parts.values())
        what = f"null: {split} in marginal's place misses in {' or '.join(parts)}"
        yield row(what, worst, split, best_static, not passes)


def judge_routing(name, part):
    what = f"{name}: joint costs no more than earliest, by more than noise"
    yield row(what, part, JOINT, EARLIEST, within(part, JOINT, EARLIEST))
    what = f"{name}, null: pools that lose users' blocks ({LOST}) miss that"
    yield row(what, part, LOST, EARLIEST, not within(part, LOST, EARLIEST))


def judge(parts):
    """parts: part by name. Returns rows with what, ratio, noise and holds."""
    split = {name: part for name, part in parts.items() if name != "routing" and part}
    rows = [judged for name, part in split.items() for judged in judge_split(name, part)]
    if len(split) > 1:
        rows += judge_constants(split)
    if parts.get("routing"):
        rows += judge_routing("routing", parts["routing"])
    return rows
