"""What of xGR's results is judged, and the models without its ideas that must miss the bounds."""

import engine
import load
import nulls  # the folder above is on the path (xgr.py)

# Goodput at P99 <= 200 ms over independent paths: (width, same normalisation, over all logits), for the tiny
# shape with 3,000 cached tokens.
GOODPUT = {128: (3.0, 3.5), 256: (3.4, 4.0)}
PAPER_GOODPUT = 3.49  # the paper's largest ratio; its baselines compute all logits
PAPER_MEMORY = 46.3 / 10.6  # Figure 15 at width 512
PAPER_ATTENTION = 6.6  # Figure 17


def ratio(results, over, under, what):
    """Returns the ratio of a value of two results as a list of one, as Report wants."""
    return [results[over][what] / max(results[under][what], 1e-9)]


def judge_attention(report, results, points, bound=None):
    for point in points:
        ours, theirs = point.of("troupe"), point.of("independent")
        where = f"{point.name}: attention over independent paths"
        values = ratio(results, theirs, ours, "attention")
        if bound:
            report.above("17", where, PAPER_ATTENTION, values, bound)
        else:
            report.say("17", where, PAPER_ATTENTION, values[0], "floor: README")


def judge_memory(report, results, points, bound=None):
    """Figures 4, 15 and 16: keys and values of a request by width and by prompt."""
    for point in points:
        values = ratio(results, point.of("independent"), point.of("troupe"), "kv_bytes_peak")
        where = f"{point.name}: keys and values, independent over Troupe"
        wide = point.width == 512 and point.prompt == 1024
        if wide or bound:
            report.above("15", where, PAPER_MEMORY if wide else None, values, bound or 3)
        else:
            report.say("16", where, None, values[0])
    for narrow, wide in pairs_by_width(points):
        grown = [
            (results[wide.of(variant)]["kv_bytes_peak"] - results[narrow.of(variant)]["kv_bytes_peak"])
            / (wide.width - narrow.width)
            for variant in ("independent", "troupe")
        ]
        ends = f"from width {narrow.width} to {wide.width}"
        where = f"{narrow.shape} {narrow.prompt}: bytes a path {ends}, ratio"
        report.above("15", where, None, [grown[0] / max(grown[1], 1e-9)], 3)


def pairs_by_width(points):
    """Returns the narrowest and the widest point of each shape, prompt and vocabulary."""
    groups = {}
    for point in points:
        groups.setdefault((point.shape, point.prompt, point.vocabulary), []).append(point)
    for group in groups.values():
        ends = sorted(group, key=lambda point: point.width)
        if len(ends) > 1:
            yield ends[0], ends[-1]


def judge_validity(report, results, points):
    """Figure 5, and the cost of the constraint (section 9.5)."""
    for point in points:
        for normalised in ("vocabulary", "allowed"):
            ours = results[point.of("troupe", normalised)]
            wrong = ours["invalid_items"] + ours["duplicate_items"]
            what = f"{point.name}, {normalised}: invalid items or duplicates"
            report.holds("5", what, 0, int(wrong), wrong == 0, values=[wrong])
        free = results[point.of("unconstrained")]
        share = free["invalid_items"] / max(1, free["returned_items"])
        report.say("5", f"{point.name}: share of invalid items without paths", "about 0.5", f"{share:.2f}")


def judge_constraint(report, results, points, bound=1.05):
    for point in points:
        values = ratio(results, point.of("troupe", "vocabulary"), point.of("unconstrained"), "cpu_ms")
        what = f"{point.name}: CPU with the constraint over without"
        report.add("18", what, "negligible", f"{values[0]:.3f}", None, f"<= {bound}", values[0] <= bound,
                   values=values)  # fmt: skip


def judge_early_end(report, results, points, bound=2):
    """Figure 11: the sort ends before continuations that cannot be among the best."""
    for point in points:
        values = ratio(results, point.of("full sort"), point.of("troupe"), "search")
        report.above("11", f"{point.name}: CPU of selection, full sort over Troupe", None, values, bound)


def judge_masks(report, results, points, bound=None):
    """Section 6.1: what is masked before the softmax need not be computed."""
    for point in points:
        values = ratio(results, point.of("troupe", "vocabulary"), point.of("troupe"), "cpu_ms")
        what = f"{point.name}: CPU, whole vocabulary over allowed tokens"
        if bound:
            report.above("6.1", what, None, values, bound)
        else:
            report.say("6.1", what, None, values[0])


def judge_recall(report, results, models):
    """Both normalisations find the true item equally often: the difference is within a standard error."""
    for model in models:
        runs = [results[engine.recall_name(model, n)] for n in ("vocabulary", "allowed")]
        over_vocabulary, over_allowed = (run["recall_at_10"] for run in runs)
        error = (over_vocabulary * (1 - over_vocabulary) / runs[0]["requests"]) ** 0.5
        what = f"{model}: recall@10, allowed against vocabulary ({over_vocabulary:.4f} ± {error:.4f})"
        close = abs(over_allowed - over_vocabulary) <= error
        report.holds("6.1", what, None, f"{over_allowed:.4f}", close, values=[over_allowed])


def floor(ours, theirs):
    """Returns the ratio that Troupe would have if its attention cost nothing."""
    return theirs["cpu_ms"] / max(ours["cpu_ms"] - ours["attention"], 1e-9)


def judge_search(report, results, points, bounds=None):
    """CPU time of a request over independent paths, and the ratio that free attention would give."""
    for point in points:
        ours = results[point.of("troupe")]
        for normalised, name in (("allowed", "same"), ("vocabulary", "all logits")):
            theirs = results[point.of("independent", normalised)]
            values = [theirs["cpu_ms"] / ours["cpu_ms"]]
            what = f"{point.name}: CPU, independent paths ({name}) over Troupe"
            if bounds:
                report.above("13", what, None, values, bounds[normalised])
            else:
                limit = floor(ours, theirs)
                report.say("13", what, None, values[0], f"free attention: {limit:.2f}")


def judge_goodput(report, results, shape, width):
    bounds = dict(zip(("allowed", "vocabulary"), GOODPUT.get(width, ()))) if shape == "tiny" else {}
    ours = load.key(shape, width, "troupe")
    for normalised, name in (("allowed", "same normalisation"), ("vocabulary", "all logits")):
        theirs = load.key(shape, width, "independent", normalised)
        what = f"{shape} {width}: goodput over independent paths, {name}"
        if results[theirs]["goodput"] <= 0:
            report.say("13", what, PAPER_GOODPUT, f"{results[ours]['goodput']:.2f}/s, theirs none")
        elif normalised in bounds:
            values = ratio(results, ours, theirs, "goodput")
            report.above("13", what, PAPER_GOODPUT, values, bounds[normalised])
        else:
            report.say("13", what, PAPER_GOODPUT, ratio(results, ours, theirs, "goodput")[0])


def judge_memory_by_rate(report, results, shape, width):
    for variant in ("troupe", "independent"):
        run = results[load.key(shape, width, variant)]
        text = f"{run['memory_low_mb']:.0f} to {run['memory_high_mb']:.0f} MB"
        report.say("16", f"{shape} {width}, {variant}: the node's memory, lowest to highest rate", None, text)


def judge_ablation(report, results, shape, width, variants):
    """Figure 18, as far as a CPU has its parts: there are no graphs and no streams."""
    ours = results[load.key(shape, width, "troupe")]["goodput"]
    for variant in ("tree", "full sort", "unconstrained", "no reuse", "no batches"):
        if variant in variants and results[load.key(shape, width, variant)]["goodput"] > 0:
            over = ours / results[load.key(shape, width, variant)]["goodput"]
            report.say("18", f"{shape} {width}: goodput over {variant}", None, over)


# Figure → the variant, or the normalisation, that lacks its idea and has the others. With its runs in
# Troupe's place, a bound of the figure must not hold.
NULLS = {
    "5": "unconstrained",
    "6.1": "vocabulary",
    "11": "full sort",
    "13": "independent",
    "15": "independent",
    "17": "independent",
}


def other_of(name, null):
    """Returns the name of the run that stands in a null model for Troupe's run `name`; "" for other runs."""
    point, _, run = name.rpartition("/")
    variant, _, normalised = run.partition(", ")
    if variant != "troupe":
        return ""
    if null == "vocabulary":
        return f"{point}/troupe, vocabulary"
    return f"{point}/{null}, {'vocabulary' if null == 'unconstrained' else normalised}"


def world(results, null):
    """Returns the results of a model without an idea: other runs in place of Troupe's."""
    replaced = {name: other_of(name, null) for name in results if not name.startswith("recall ")}
    return {name: results.get(replaced.get(name) or name, run) for name, run in results.items()}


def mark(report, judged, results):
    """Sets `null` of the rows that hold and that the model without their idea meets, too. Returns figure →
    (bounds that it meets, all)."""
    report.examined, met = True, {}
    for figure, null in NULLS.items():
        other = {nulls.key_of(row): row["ok"] for row in judged(world(results, null)).judged()}
        rows = [row for row in report.judged() if row["figure"] == figure and "recall" not in row["what"]]
        for row in rows:
            if row["ok"] and other[nulls.key_of(row)]:
                row["null"] = f"{null} in Troupe's place"
        met[figure] = (sum(other[nulls.key_of(row)] for row in rows), len(rows))
    return met


SHORT = [engine.Point("tiny", 128, 1024, requests=2), engine.Point("tiny", 32, 1024, requests=1)]


def judge_short(report, results):
    """One bound for each mechanism, at about half of its measured effect."""
    wide = SHORT[:1]
    judge_attention(report, results, wide, bound=1.7)
    judge_memory(report, results, SHORT)
    judge_validity(report, results, SHORT)
    judge_constraint(report, results, wide, bound=1.3)
    judge_early_end(report, results, wide)
    judge_masks(report, results, wide, bound=1.3)
    judge_search(report, results, wide, bounds={"allowed": 1.3, "vocabulary": 2.2})
