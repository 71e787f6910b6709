"""Turns scrapes of /metrics into series for `promtool test rules`, and evaluates the shipped alerts on them.

A series is what a node shows minute by minute: healthy minutes, then minutes with a fault.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "monitoring" / "alerts.yaml"
HEALTHY, FAULTY = 60, 90  # minutes
USUAL = 35  # minute of the fault at which alerts are looked at by default
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$")


def promtool():
    return os.environ.get("PROMTOOL") or shutil.which("promtool")


def samples_of(scrape):
    """Returns the values of a scrape by name and labels."""
    values, kinds = {}, {}
    for line in scrape.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            kinds[name] = kind
        found = SAMPLE.match(line)
        if found and not line.startswith("#"):
            values[found[1] + (found[2] or "")] = float(found[3])
    return values, kinds


def kind_of(series, kinds):
    name = series.partition("{")[0]
    for end in ("_bucket", "_sum", "_count"):
        if name.endswith(end) and kinds.get(name.removesuffix(end)) == "histogram":
            return "counter"
    return kinds.get(name, "gauge")


def number(value):
    return repr(value) if value != int(value) else str(int(value))


def run_of(value, slope, minutes):
    """`minutes` samples from `value` on, in the notation of promtool."""
    sign = "-" if slope < 0 else "+"
    return f"{number(value)}{sign}{number(abs(slope))}x{minutes - 1}"


class Node:
    """The series of one node: a value and a slope per minute, before and after the fault begins."""

    def __init__(self, instance, scrape, later):
        """`later`: a scrape of the same healthy node after some traffic, taken for a minute's."""
        self.instance, self.series, self.away = instance, {"up": [(1, 0), (1, 0)]}, 0
        values, kinds = samples_of(scrape)
        after, _ = samples_of(later)
        for series, value in values.items():
            slope = after.get(series, value) - value if kind_of(series, kinds) == "counter" else 0
            self.series[series] = [(value, slope), None]
        self.set("process_start_time_seconds", -1e6)  # long before the first minute
        for folder in ("data", "log"):  # whatever this machine's disks have
            self.set(f'troupe_disk_bytes{{folder="{folder}"}}', 100 * 2**30)
            self.set(f'troupe_disk_free_bytes{{folder="{folder}"}}', 50 * 2**30)

    def set(self, series, value, slope=0):
        """Sets a value from the first minute on."""
        self.series[series] = [(value, slope), None]

    def fault(self, series, value=None, slope=0):
        """From the fault on, the series has this value (None: goes on from what it was) and slope."""
        before = self.series.setdefault(series, [None, None])
        if value is None:
            begin, step = before[0] or (0, 0)
            value = begin + step * HEALTHY
        before[1] = (value, slope)

    def show(self, scrape, later, seconds):
        """From the fault on, the node shows what it really did: `later` is `seconds` after `scrape`."""
        values, kinds = samples_of(scrape)
        after, _ = samples_of(later)
        for series, value in values.items():
            if series == "process_start_time_seconds":
                continue
            grows = kind_of(series, kinds) == "counter" or series.partition("{")[0].endswith("_age_seconds")
            growth = max(0, after.get(series, value) - value) * 60 / seconds
            self.fault(series, value, growth if grows else 0)

    def vanish(self):
        """The node is not scraped any more."""
        for series in self.series:
            self.series[series][1] = "gone"
        self.series["up"][1] = (0, 0)

    def restart(self, minutes):
        """The fault begins with so many minutes without a scrape, after which the node starts again."""
        self.away = minutes
        self.fault("process_start_time_seconds", 60 * (HEALTHY + minutes))

    def inputs(self, used):
        """Yields the series of the metrics in `used`, in the notation of promtool."""
        for series, (healthy, faulty) in self.series.items():
            name, _, labels = series.partition("{")
            if name not in used:
                continue
            labels = f'job="troupe",instance="{self.instance}"' + ("," + labels[:-1] if labels else "")
            first = f"_x{HEALTHY - 1}" if healthy is None else run_of(*healthy, HEALTHY)
            if faulty is None:
                value, slope = healthy
                second = run_of(value + slope * HEALTHY, slope, FAULTY)
            elif faulty == "gone":
                second = f"stale _x{FAULTY - 2}"
            else:
                second = run_of(*faulty, FAULTY)
            if self.away:
                missing = run_of(0, 0, self.away) if series == "up" else f"stale _x{self.away - 2}"
                second = f"{missing} {second}"
            yield {"series": f"{name}{{{labels}}}", "values": f"{first} {second}"}


def names_of_alerts():
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


def fire(cases):
    """Evaluates the alerts. `cases`: (name, nodes, expected alerts, minutes of the fault). Returns by case
    what promtool says is wrong; "" = nothing."""
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    used = set(re.findall(r"[a-z_]+", ALERTS.read_text()))
    tests = []
    for name, nodes, expected, minutes in cases:
        at_end = [
            {"labels": f'{{alertname="{alert}"}}', "value": count}
            for alert, count in sorted(expected.items())
        ]
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": [one for node in nodes for one in node.inputs(used)],
                "promql_expr_test": [
                    {"expr": firing, "eval_time": f"{HEALTHY - 1}m", "exp_samples": []},
                    {"expr": firing, "eval_time": f"{HEALTHY + minutes}m", "exp_samples": at_end},
                ],
            }
        )
    with tempfile.TemporaryDirectory() as folder:
        for i, test in enumerate(tests):
            file = pathlib.Path(folder, f"{i}.yaml")
            file.write_text(
                yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [test]})
            )
        return {cases[i][0]: _problem(pathlib.Path(folder, f"{i}.yaml")) for i in range(len(tests))}


def fired(nodes):
    """Returns the names of the alerts that fire in the end."""
    problem = fire([("fired", nodes, {"none": 1}, USUAL)])["fired"]
    return set(re.findall(r'alertname=\\?"(\w+)\\?"', problem)) - {"none"}


def _problem(file):
    done = subprocess.run([promtool(), "test", "rules", file], capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip()
