"""xGR §9 on this machine's CPU: the search engine alone (`troupe-lab bench generate`) and nodes
over HTTP, beside independent paths, a tree mask, a full sort and no constraint, which run on the same
kernels. Both normalisations are measured: the paper masks, then takes the softmax (§6.1, "allowed"); other
engines compute all logits ("vocabulary"). README.md says what the paper's figures become here, and why bounds
are missed."""

import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
sys.path.append(HERE)
import engine  # noqa: E402
import judge  # noqa: E402
import load  # noqa: E402
from checks import Report, read_explained  # noqa: E402

PARTS = ["engine", "vocabularies", "recall", "load"]


def words(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", required=True, help="the program troupe-lab")
    parser.add_argument("--troupe", required=True, help="the program troupe")
    parser.add_argument("--short", action="store_true", help="one bound for each mechanism: half a minute")
    parser.add_argument("--parts", type=words(str), default=PARTS, help="only these of " + ", ".join(PARTS))
    parser.add_argument("--shapes", type=words(str), default=["tiny", "small"])
    parser.add_argument("--widths", type=words(int), default=[128, 256, 512])
    parser.add_argument(
        "--variants", type=words(str), default=list(load.ENGINES), help="of load: " + ", ".join(load.ENGINES)
    )
    parser.add_argument("--limit", type=float, default=200, help="maximum P99 in milliseconds")
    parser.add_argument("--seconds", type=float, default=5, help="length of a loop of load")
    parser.add_argument(
        "--kept", metavar="FILE", help="results file; runs that it has are not repeated, new ones are added"
    )
    parser.add_argument("--json", help="write all rows and results to this file")
    parser.add_argument("--plot", metavar="SVG", help="plot P99 over rate for each shape and width of load")
    options = parser.parse_args()
    for name, known in (("parts", PARTS), ("variants", list(load.ENGINES))):
        for word in getattr(options, name):
            if word not in known:
                parser.error(f"--{name}: {word} is unknown; expected some of {', '.join(known)}")
    if "load" in options.parts and not {"troupe", "independent"} <= set(options.variants):
        parser.error("--variants: expected troupe and independent among them")
    return options


class Kept:
    """Results by name, kept in a file so that an interrupted run can be resumed."""

    def __init__(self, path):
        self.path, self.results = path, {}
        if path and os.path.exists(path):
            with open(path) as file:
                self.results = json.load(file)

    def add(self, names, measure):
        """Measures unless all names are known."""
        if all(name in self.results for name in names):
            return
        print(f"measuring {names[0].split('/')[0]}", file=sys.stderr, flush=True)
        self.results.update(measure())
        if self.path:
            with open(self.path, "w") as file:
                json.dump(self.results, file, indent=1)


def measure_points(options, kept, points):
    for point in points:
        kept.add([point.of("troupe")], lambda point=point: engine.run(options.lab, point))


def plot_path(path, shape, width):
    name, kind = os.path.splitext(path)
    return f"{name}-{shape}-{width}{kind}"


def measure_load(options, kept):
    def measure(shape, width):
        found, results = load.run(
            options.troupe, shape, width, options.variants, options.limit, options.seconds
        )
        if options.plot:
            load.generate_load.plot(plot_path(options.plot, shape, width), results, options.limit)
        return found

    for shape in options.shapes:
        for width in options.widths:
            names = [load.key(shape, width, variant) for variant in options.variants]
            kept.add(names, lambda shape=shape, width=width: measure(shape, width))


def judge_paper(options, results, explained):
    report = Report(explained)
    points = engine.points(options.shapes, options.widths) if "engine" in options.parts else []
    judge.judge_search(report, results, points)
    judge.judge_attention(report, results, [p for p in points if p.width == 256 and p.shape == "tiny"], 3)
    judge.judge_attention(report, results, [p for p in points if p.width != 256 or p.shape != "tiny"])
    judge.judge_memory(report, results, points)
    judge.judge_validity(report, results, points)
    judge.judge_constraint(report, results, points)
    judge.judge_early_end(report, results, [p for p in points if p.shape == "tiny"])
    judge.judge_masks(report, results, points)
    if "vocabularies" in options.parts:
        judge.judge_search(report, results, engine.vocabularies())
        judge.judge_masks(report, results, engine.vocabularies())
    if "recall" in options.parts:
        judge.judge_recall(report, results, engine.trained_models())
    if "load" in options.parts:
        for shape in options.shapes:
            for width in options.widths:
                judge.judge_goodput(report, results, shape, width)
                judge.judge_memory_by_rate(report, results, shape, width)
                judge.judge_ablation(report, results, shape, width, options.variants)
    return report


def finish(options, judged, results):
    """Marks bounds that null models meet, prints, and returns the exit status."""
    report = judged(results)
    met = judge.mark(report, judged, results)
    report.print()
    for figure, (held, rows) in met.items():
        print(f"figure {figure} with {judge.NULLS[figure]} in Troupe's place: {held} of {rows} bounds hold")
    if options.json:
        document = dict(
            commit=engine.commit(options.lab),
            totals=report.totals(),
            nulls=met,
            rows=report.rows,
            results=results,
        )
        with open(options.json, "w") as file:
            json.dump(document, file, indent=1)
    return report.missed()


def judge_mechanisms(results):
    report = Report()
    judge.judge_short(report, results)
    return report


def main():
    options = parse_options()
    kept = Kept(options.kept)
    if options.short:
        measure_points(options, kept, judge.SHORT)
        return finish(options, judge_mechanisms, kept.results)
    if "engine" in options.parts:
        measure_points(options, kept, engine.points(options.shapes, options.widths))
    if "vocabularies" in options.parts:
        measure_points(options, kept, engine.vocabularies())
    if "recall" in options.parts:
        for model in engine.trained_models():
            names = [engine.recall_name(model, "vocabulary")]
            kept.add(names, lambda model=model: engine.recall(options.lab, model))
    if "load" in options.parts:
        measure_load(options, kept)
    explained = read_explained(os.path.join(HERE, "README.md"))
    return finish(options, lambda results: judge_paper(options, results, explained), kept.results)


if __name__ == "__main__":
    sys.exit(main())
