#!/usr/bin/env python3
"""Shows each shipped alert its fault: it has to fire, and all others have to be silent.

  tests/monitoring/alerts_test.py --troupe build/deploy/troupe [--only TEXT] [--table FILE]

- Each alert of deploy/monitoring/alerts.yaml has a severity, a summary and a runbook, which is a section of
  docs/guides/troubleshooting.md, with commands; each section there is of an alert.
- `promtool test rules` (Debian package prometheus) evaluates the alerts on series of two nodes: healthy
  ones, which were scraped from a node under load, and then those of a fault of faults.py. Each alert has
  at least one.

Exit status 77, after the first check, without promtool.
"""
import argparse
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
try:
    import yaml
except ImportError:
    print("skipped: no python3-yaml")
    sys.exit(77)
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults
import served
import series

RUNBOOK = series.ROOT / "docs" / "guides" / "troubleshooting.md"
wrong = []


def expect(holds, what):
    if not holds:
        print("WRONG " + what)
        wrong.append(what)


def sections():
    """Returns the text of each section of the runbook that is of an alert."""
    parts = re.split(r"^## ", RUNBOOK.read_text(), flags=re.M)[1:]
    texts = {part.partition("\n")[0].strip(): part.partition("\n")[2] for part in parts}
    return {name: text for name, text in texts.items() if name.startswith("Troupe")}


def check_runbook():
    texts = sections()
    rules = [rule for group in yaml.safe_load(series.ALERTS.read_text())["groups"] for rule in group["rules"]]
    for rule in rules:
        name, notes = rule["alert"], rule["annotations"]
        expect(rule["labels"].get("severity") in ("page", "ticket"), f"{name} has a severity")
        expect("summary" in notes, f"{name} has a summary")
        page = f"docs/guides/troubleshooting.md#{name.lower()}"
        expect(notes.get("runbook_url") == page, f"{name}: runbook_url is {page}")
        expect(name in texts, f"{name} has a section in {RUNBOOK.name}")
        expect("```" in texts.get(name, "```"), f"{name}: its section shows commands")
    for name in texts:
        expect(name in [rule["alert"] for rule in rules], f"{name}: the section is of an alert")
    print(f"{len(rules)} alerts have a runbook")


def healthy_scrapes(troupe):
    """Returns two scrapes of a node under load."""
    with tempfile.TemporaryDirectory() as folder, served.Node(troupe, pathlib.Path(folder)) as node:
        node.rank(20)
        first = node.metrics()
        node.rank(60)
        return first, node.metrics()


def check_faults(scrapes, only):
    cases = []
    for name, change, expected, *minutes in faults.FAULTS:
        if only and only not in name:
            continue
        nodes = [series.Node(f"10.0.0.{i}:8080", *scrapes) for i in (1, 2)]
        change(nodes)
        cases.append((name, nodes, expected, minutes[0] if minutes else series.USUAL))
    problems = series.fire(cases)
    for name, _, expected, _ in cases:
        fired = ", ".join(sorted(expected)) or "none"
        print(f"{'WRONG' if problems[name] else 'ok   '} {name}: {fired}")
        if problems[name]:
            print(problems[name])
            wrong.append(name)
    named = {alert for _, _, expected, *_ in faults.FAULTS for alert in expected}
    for alert in series.names_of_alerts():
        expect(alert in named, f"{alert} has a fault in faults.py")
    return [(name, ", ".join(sorted(expected)) or "–") for name, _, expected, _ in cases]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--only", help="only faults whose name has this text")
    parser.add_argument(
        "--table", type=pathlib.Path, help="write the table of faults and alerts to this file"
    )
    arguments = parser.parse_args()
    check_runbook()
    if not series.promtool():
        print("skipped: there is no promtool (apt-get install prometheus)")
        return 1 if wrong else 77
    table = check_faults(healthy_scrapes(arguments.troupe), arguments.only)
    if arguments.table:
        rows = "".join(f"| {fault} | {alerts} |\n" for fault, alerts in table)
        arguments.table.write_text("| fault | alerts that fire |\n| --- | --- |\n" + rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
