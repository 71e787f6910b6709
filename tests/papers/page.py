#!/usr/bin/env python3
"""Writes the tables of docs/papers.md from the committed runs of the five papers' comparisons.

    page.py            # writes them between the page's marks <!-- table NAME --> and <!-- end -->
    page.py --check    # exit status 1 if the page differs, or a commit that it cites is not in the history

A comparison whose results file is not there is listed as not yet run, with its command. The table SOURCES
says where the file of each is expected.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAGE, RESULTS = "docs/papers.md", "tests/bench/results"
sys.path += [HERE, os.path.join(HERE, "flame")]
import broken  # noqa: E402
import features  # noqa: E402
import flame  # noqa: E402
from checks import text  # noqa: E402

# Programs that were built from a tree with changes, and the commit that has these.
COMMITTED = {"36e17542-dirty": "d7a01bd9", "9a377392-dirty": "a44dbbac"}
LOST = "not reproducible"  # the commit is not in the history
# Figures of a results file that are Troupe's own claims on the same runs; no null model is tried on them.
OWN = {"planner", "alpha", "beyond"}


@dataclass
class Source:
    """Where the committed run of a comparison is, relative to the folder of results."""

    paper: str
    command: str
    file: str
    page: str
    reasons: str  # where missed bounds are explained, relative to docs/
    examined: bool = True  # null models are tried on its bounds


SOURCES = [
    Source(
        "BAT",
        "tests/papers/bat/run.sh --json bat.json",
        "papers/bat.json",
        "papers-bat.md",
        "../tests/papers/bat/README.md#what-is-missed-and-why",
    ),
    Source(
        "RcLLM",
        "tests/papers/rcllm/run.sh --json papers.json",
        "rcllm/papers.json",
        "rcllm/figures.md",
        "../tests/papers/rcllm/README.md#what-does-not-fit",
    ),
    Source(
        "HLEM",
        "tests/papers/hlem/run.sh --json hlem.json",
        "papers/hlem.json",
        "papers-hlem.md",
        "../tests/papers/hlem/README.md",
    ),
    Source(
        "xGR",
        "tests/papers/xgr/run.sh --kept kept.json --json xgr.json",
        "papers/xgr.json",
        "generation.md",
        "../tests/papers/xgr/README.md#what-is-missed-and-why",
    ),
    Source("FLAME", "PEERS=FOLDER tests/papers/flame/run.sh", "climber.json", "papers-flame.md", ""),
    Source(
        "planner",
        "tests/papers/planner/run.sh --small --no-node --json planner.json",
        "papers/planner.json",
        "papers-planner.md",
        "../tests/bench/results/papers-planner.md#the-miss-on-games",
        examined=False,
    ),
]
# FLAME's runs have no bounds and no commit of their own (tests/bench/results/climber.md, papers-flame.md).
FLAME_COMMITS = {"features.json": "d5e540a", "climber.json": LOST, "climber-shapes.txt": LOST}
SWEEP = "papers/flame-items.json"  # the cache of items' features, with the link swept
SWEEP_COMMAND = (
    "tests/papers/flame/features.py --troupe build/deploy/troupe --items cached "
    "--rates 0,16e6,8e6,4e6,2e6 \\\n  --plot flame-items.svg --json flame-items.json"
)
HEAD = ["claim", "paper", "ours", "noise", "bound", "verdict", "in view", "discriminating", "commit"]


def results(name):
    return os.path.join(ROOT, RESULTS, name)


def load(name):
    with open(results(name)) as file:
        return json.load(file)


def commit_of(document):
    commit = COMMITTED.get(document["commit"], document["commit"])
    if not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        sys.exit(f"page.py: a results file has commit {commit}: expected one of the history, or in COMMITTED")
    return commit


def cited(commit):
    return commit if commit == LOST else f"`{commit}`"


# ---- the cells of a claim ----


def ours_and_noise(row):
    """Returns Troupe's value and its standard error over seeds, as the comparison printed them."""
    shown = text(row["troupe"])
    value, both, error = shown.partition(" ± ")
    if both:
        return value, "± " + error.split(" (")[0] + (" %" if value.endswith("%") else "")
    return shown, "–"


def is_claim(row):
    """Whether a row has a verdict about Troupe; those about null models judge the bounds."""
    return row["ok"] is not None and row["bound"] != "must miss"


def discriminating(row, examined):
    if not examined or row["figure"] in OWN:
        return "not examined"
    return f"no: {row['null']}" if row["null"] else "yes"


def cells(row, commit, examined):
    value, noise = ours_and_noise(row)
    return [
        f"{row['figure']}: {row['what']}",
        text(row["paper"]) or "–",
        value or "–",
        noise,
        row["bound"],
        "holds" if row["ok"] else "**missed**",
        "yes" if row["in_view"] else "no",
        discriminating(row, examined),
        cited(commit),
    ]


def table(head, lines):
    def joined(line):
        return "| " + " | ".join(cell.replace("|", r"\|").replace("*", r"\*") for cell in line) + " |"

    lines = [joined(line).replace(r"\*\*missed\*\*", "**missed**") for line in lines]
    return "\n".join([joined(head), "|" + " --- |" * len(head), *lines])


# ---- FLAME, whose tables have no bounds ----


def flame_rows():
    """Returns (claim, the paper's ratio, ours, results file)."""
    found = []
    rows = {row["row"]: row for row in load("features.json")["rows"]}
    none, cached = rows["no cache"], rows["cache, waits"]
    base, cache, _ = features.TABLE3  # the paper's "+Cache, -Mem Opt"
    over = lambda what, a, b: (what, a, b, "features.json")
    ratio = cached["pairs_per_second"] / none["pairs_per_second"]
    found.append(
        over("Table 3: pairs/s, cached features over none; a link of 1 MB/s, full", cache[1] / base[1], ratio)
    )
    ratio = none["latency_ms"] / cached["latency_ms"]
    found.append(over("Table 3: mean latency, none over cached", base[2] / cache[2], ratio))
    rows = load("climber.json")
    for shape, paper in flame.TABLE4.items():
        here = [
            row
            for row in rows
            if row["shape"] == shape and row["threads"] == 1 and row["workload"] == "all computed"
        ]
        mine = next(row for row in here if row["engine"] == "Troupe")
        theirs = next(row for row in here if flame.is_baseline(row))
        ratio = mine["pairs_per_cpu_second"] / theirs["pairs_per_cpu_second"]
        what = f"Table 4, {shape} ({flame.SIZES[shape]}): pairs/s over the converted ONNX model, float32"
        found.append((what, paper[2][1] / paper[0][1], ratio, "climber.json"))
    ways = {}
    with open(results("climber-shapes.txt")) as file:
        for row in map(json.loads, file):
            ways.setdefault(row.get("way"), row)
    ratio = ways["fixed"]["pairs_per_cpu_second"] / ways["dynamic"]["pairs_per_cpu_second"]
    shapes = flame.TABLE5[1][1] / flame.TABLE5[0][1]
    found.append(("Table 5: pairs/s, fixed shapes over any size", shapes, ratio, "climber-shapes.txt"))
    return found


def sweep_rows(runs):
    """Returns (claim, the paper's ratio, ours) by rate of the link: the cache over none, in pairs/s."""
    base, cached, _ = features.TABLE3
    for rate in sorted({run["rate"] for run in runs if run["rate"]}, reverse=True):
        of = {run["row"]: run["pairs_per_second"] for run in runs if run["rate"] == rate}
        share = features.network_share(runs, rate)
        what = (
            f"Table 3, items behind {rate / 1e6:g} MB/s: pairs/s, cached over none; the link is {share:.0%}"
        )
        yield f"{what} of the latency", cached[1] / base[1], of["cache, waits"] / of["no cache"]


def flame_claims():
    found = table(HEAD, flame_cells())
    if not os.path.exists(results(SWEEP)):
        missing = "The cache of items' features is not yet run. The command:"
        return f"{found}\n\n{missing}\n\n```\n{SWEEP_COMMAND}\n```"
    document = load(SWEEP)
    commit = cited(commit_of(document))
    lines = [
        [what, f"{paper:.2f} ×", f"{ours:.2f} ×", "–", "–", "not judged", "no", "not examined", commit]
        for what, paper, ours in sweep_rows(document["sweep"])
    ]
    return found + "\n" + "\n".join(table(HEAD, lines).split("\n")[2:])


def flame_cells():
    return [
        [what, f"{paper:.2f} ×", f"{ours:.2f} ×", "–", "–", "not judged", "no", "not examined",
         cited(FLAME_COMMITS[file])]
        for what, paper, ours, file in flame_rows()
    ]  # fmt: skip


# ---- mechanisms broken on purpose ----


def broken_table():
    """Returns a line for each mutant of broken.txt, with the bounds that its run missed."""
    record, lines = broken.read_record(broken.RECORD), []
    for bug in broken.mutants():
        run = record["mutants"].get(bug.name)
        current = run and run["entry"] == broken.entry_hash(bug)
        missed = "; ".join(run["missed"]) if current else "not yet run"
        lines.append([bug.tests[0], bug.breaks, f"`{bug.file}`", missed or "**missed**"])
    return table(["short form", "what is broken", "in", "bounds that it missed"], lines)


# ---- the page ----


def count(rows):
    return f"{sum(row['ok'] for row in rows)} of {len(rows)}"


def counts(source, document):
    """Returns the summary's cells of a run; fails if its rows and its totals differ."""
    claims = [row for row in document["rows"] if is_claim(row)]
    if not source.examined:
        return ["–", "–", "–", count(claims)]
    judged = [row for row in claims if row["figure"] not in OWN]
    free = [row for row in judged if not row["null"]]
    blind, seen = ([row for row in free if row["in_view"] is view] for view in (False, True))
    held = [sum(row["ok"] for row in blind), len(blind)]
    if "totals" in document and held != list(document["totals"]["discriminating"]):
        sys.exit(f"{source.file}: its rows have {count(blind)} discriminating bounds; its totals others")
    own = [row for row in claims if row["figure"] in OWN]
    return [count(blind), count(seen), str(len(judged) - len(free)), count(own) if own else "–"]


def is_run(source):
    return os.path.exists(results(source.file))


def summary():
    head = ["comparison", "discriminating bounds that hold", "in view", "hold, and a null model's too",
            "Troupe's own claims", "commit", "all rows", "command"]  # fmt: skip
    lines = []
    for source in SOURCES:
        page = f"[results](../{RESULTS}/{source.page})"
        if not is_run(source):
            numbers = ["not yet run", "–", "–", "–", "–"]
        elif source.paper == "FLAME":
            numbers = [
                "not judged",
                "–",
                "–",
                "–",
                ", ".join(dict.fromkeys(map(cited, FLAME_COMMITS.values()))),
            ]
        else:
            document = load(source.file)
            numbers = [*counts(source, document), cited(commit_of(document))]
        lines.append([source.paper, *numbers, page, f"`{source.command}`"])
    return table(head, lines)


def claims_of(source):
    if not is_run(source):
        return f"Not yet run. The command:\n\n```\n{source.command}\n```"
    if source.paper == "FLAME":
        return flame_claims()
    document = load(source.file)
    commit = commit_of(document)
    rows = [cells(row, commit, source.examined) for row in document["rows"] if is_claim(row)]
    why = (
        f"[Why bounds are missed]({source.reasons}).\n\n" if any("**missed**" in row for row in rows) else ""
    )
    return why + table(HEAD, rows)


def tables():
    return {
        "summary": summary(),
        "broken": broken_table(),
        **{source.paper: claims_of(source) for source in SOURCES},
    }


def filled(page, made):
    """Returns the page with its tables replaced; fails unless it has the marks of each, once."""
    for name, content in made.items():
        marked = re.compile(rf"(<!-- table {re.escape(name)} -->\n).*?(<!-- end -->\n)", re.S)
        page, found = marked.subn(lambda match, content=content: match[1] + content + "\n" + match[2], page)
        if found != 1:
            sys.exit(
                f"{PAGE}: {found} places for <!-- table {name} -->; expected one, with <!-- end --> below it"
            )
    return page


def git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.returncode == 0, done.stdout.strip()


def whole_history():
    return git("rev-parse", "--is-shallow-repository") == (True, "false")


def in_history(commit):
    return git("merge-base", "--is-ancestor", commit, "HEAD")[0]


def count_breaches(pages, known):
    """Yields the lines that claim another count of discriminating bounds than a run has."""
    for name, page in pages.items():
        flat = re.sub(r"\s+", " ", page)
        for found in re.findall(r"\d+ of \d+(?= discriminating bounds)", flat):
            if found not in known:
                yield f"{name}: {found} discriminating bounds; no committed run has that"


def breaches(page, made, known_commit=in_history):
    """Yields what is wrong with the page."""
    if filled(page, made) != page:
        yield f"{PAGE} is not what its runs say: run tests/papers/page.py"
    everything = "\n".join(made.values())
    for commit in sorted(set(re.findall(r"`([0-9a-f]{7,40})`", everything))):
        if not known_commit(commit):
            yield f"{PAGE}: commit {commit} is not in the history"
    known = re.findall(r"\d+ of \d+", made["summary"])
    others = ["README.md", "docs/benchmarks.md", PAGE, f"{RESULTS}/README.md"]
    others += [f"{RESULTS}/{source.page}" for source in SOURCES]
    yield from count_breaches({name: read(name) for name in others}, known)


def read(name):
    with open(os.path.join(ROOT, name)) as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if it would differ"
    )
    options = parser.parse_args()
    page, made = read(PAGE), tables()
    if not options.check:
        with open(os.path.join(ROOT, PAGE), "w") as file:
            file.write(filled(page, made))
        return 0
    found = list(breaches(page, made, in_history if whole_history() else lambda _: True))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
