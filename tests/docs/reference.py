#!/usr/bin/env python3
"""Generates the reference pages of docs/reference/ from the program: settings, commands, metrics and HTTP.

    reference.py --troupe PROGRAM            # compares; ends with 1 and the differences if a page is stale
    reference.py --troupe PROGRAM --write    # writes the pages

The program troupe-lab is beside PROGRAM.
Settings come from `troupe config`, commands from `--help`, metrics and HTTP from a node on the demo world.
"""
import argparse
import difflib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"
NOTE = "<!-- Generated from the program by tests/docs/reference.py --write. Do not edit. -->\n"
START_SECONDS = 60


def run(troupe, *arguments):
    environment = os.environ | {"COLUMNS": "100", "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [troupe, *arguments], check=True, capture_output=True, text=True, env=environment
    ).stdout


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").strip()


# ---- settings ----

RANGE = re.compile(r" ((?:[\w.+-]+\.\.[\w.+-]+|[\w.-]+(?: \| [\w.-]+)+)[^.]*)\.$")


def split_comment(comment):
    """Returns the meaning and the range of a setting's comment in the output of `troupe config`."""
    if (found := RANGE.search(" " + comment)) is None:
        return comment, ""
    return comment[: max(found.start() - 1, 0)].strip(), found[1]


def variable_of(setting):
    """Returns a setting's environment variable, as runtime/config/environment.cc does."""
    return "TROUPE_" + setting.replace(".", "_").upper()


def other_variables():
    """Returns the variables that are no settings, from their table."""
    table = (ROOT / "runtime" / "config" / "environment.cc").read_text()
    return re.findall(r'^    \{"(TROUPE_\w+)", "', table, re.M)


def settings(troupe):
    lines, group, comment = [], "", ""
    for line in run(troupe, "config").split("\n"):
        if found := re.match(r"^([a-z]+):$", line):
            group = found[1]
            lines += [
                "",
                f"## {group}",
                "",
                "| setting | variable | default | range | meaning |",
                "| --- | --- | --- | --- | --- |",
            ]
        elif line.startswith("  # "):
            comment += (" " if comment else "") + line[4:]
        elif found := re.match(r"^  ([a-z_]+): (.*)$", line):
            meaning, bounds = split_comment(comment)
            default = cell(found[2].strip('"'))
            default = f"`{default}`" if default else "(empty)"
            name = f"{group}.{found[1]}"
            lines.append(
                f"| `{name}` | `{variable_of(name)}` | {default} | {cell(bounds)} | {cell(meaning)} |"
            )
            comment = ""
    return "\n".join(
        [
            "# Settings",
            "",
            NOTE,
            "A setting is read from the YAML file of `--config`, from an environment variable, which wins",
            "over the file, or from the command line (`--set NAME=VALUE`), which wins over both. A setting",
            "that is left out has its default. `troupe config` prints a file with all of them.",
            "",
            "`troupe serve`, `node`, `import` and `verify` read all variables, `members` and `leave` those",
            "of the section cluster. A variable holds like `--set`, also for all models of a list. Any other",
            "variable that begins with `TROUPE_` is refused with the nearest known one, except those that",
            "Kubernetes sets for a service, and these, which scripts of this project read:",
            textwrap.fill(", ".join(f"`{name}`" for name in other_variables()) + ".", 100),
            "`troupe-lab` reads no variables.",
            "",
            "A size is a number with a unit: with an `i` a power of 1024 (`16Gi`, `16GiB`), without it a",
            "power of 1000 (`16G`, `16GB`). A duration is a number with `us`, `ms`, `s`, `m` or `min`, `h`",
            "or `d`, or several (`1h30m`). Options of commands that are sizes take the same.",
            *lines,
            "",
        ]
    )


# ---- commands ----


def in_order(text):
    """Sorts the options that one excludes: their order in the program is that of addresses."""
    return re.sub(r"(Excludes:)((?: --[\w-]+){2,})", lambda m: " ".join([m[1], *sorted(m[2].split())]), text)


def subcommands(text):
    """Returns the names of the commands in a help text: all sections but the arguments have commands."""
    others = ("Positionals", "Options", "Example")
    sections = re.findall(r"^([A-Z][\w ]*):\n((?:  .*\n?)*)", text, re.M)
    return [
        name
        for title, lines in sections
        if title not in others
        for name in re.findall(r"^  ([a-z][\w-]*)(?= {2,}|$)", lines, re.M)
    ]


def commands(troupe):
    lines = [
        "# Commands",
        "",
        NOTE,
        "`troupe` serves and operates nodes; `troupe-lab` measures, simulates and plans.",
        "`PROGRAM COMMAND --help` prints the same. A command that did what was asked ends with status 0.",
    ]

    def add(program, path, depth):
        text = in_order(run(program, *path, "--help").strip("\n"))
        words = " ".join([pathlib.Path(program).name, *path])
        lines.extend(["", f"{'#' * min(depth + 2, 4)} {words}", "", "```text", text, "```"])
        for name in subcommands(text):
            add(program, [*path, name], depth + 1)

    for program in (troupe, f"{troupe}-lab"):
        add(program, [], 0)
    return "\n".join([*lines, ""])


# ---- a node that serves the demo world ----


class Served:
    """A node on the demo world, in a folder of its own, until the block ends."""

    def __init__(self, troupe):
        self.troupe = troupe

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-docs-")
        data, demo = pathlib.Path(self.folder.name), ROOT / "deploy" / "demo"
        port = data / "port"
        run(self.troupe, "import", "--model", demo / "model", "--data-dir", data, "--data", demo / "world")
        self.process = subprocess.Popen(
            [
                self.troupe,
                "serve",
                "--model",
                demo / "model",
                "--data-dir",
                data,
                "--port",
                "0",
                "--port-file",
                port,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + START_SECONDS
        while not (port.is_file() and port.read_text().strip()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit("the node did not start; expected a port within a minute")
            time.sleep(0.05)
        self.address = f"http://127.0.0.1:{port.read_text().strip()}"
        while True:
            try:
                self.get("/v2/health/ready")
                return self
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def get(self, path):
        with urllib.request.urlopen(self.address + path, timeout=10) as reply:
            return reply.read().decode()

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.folder.cleanup()


# ---- metrics ----


def metrics(served):
    helps, kinds, labels = {}, {}, {}
    for line in served.get("/metrics").split("\n"):
        if found := re.match(r"# HELP (\S+) (.*)", line):
            helps[found[1]] = found[2]
        elif found := re.match(r"# TYPE (\S+) (\S+)", line):
            kinds[found[1]] = found[2]
        elif found := re.match(r"(\w+?)(?:_bucket|_sum|_count)?\{(.*)\}", line):
            names = set(re.findall(r'(\w+)="', found[2])) - {"le"}
            for name in (found[1], line.split("{")[0]):
                labels.setdefault(name, set()).update(names)
    rows = []
    for name in sorted(helps):
        own = ", ".join(f"`{label}`" for label in sorted(labels.get(name, ())))
        rows.append(f"| `{name}` | {kinds.get(name, '')} | {own} | {cell(helps[name])} |")
    return "\n".join(
        [
            "# Metrics",
            "",
            NOTE,
            "`GET /metrics` answers in the Prometheus text format. Some metrics appear when they first count",
            "something; the table has those of a node that has just started.",
            "",
            "| metric | type | labels | meaning |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


# ---- HTTP ----


def type_of(schema, components):
    """Returns a schema in a few words."""
    if "$ref" in schema:
        return f"[{schema['$ref'].split('/')[-1]}](#{schema['$ref'].split('/')[-1].lower()})"
    for joined in ("oneOf", "anyOf", "allOf"):
        if joined in schema:
            return " or ".join(type_of(part, components) for part in schema[joined])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"array of {type_of(schema.get('items', {}), components)}"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return " or ".join(kind) if isinstance(kind, list) else kind


def content_of(body, components):
    kinds = [
        f"{type_of(content.get('schema', {}), components)} ({name})"
        for name, content in body.get("content", {}).items()
    ]
    return "; ".join(kinds)


def http(served):
    document = json.loads(served.get("/openapi.json"))
    components = document.get("components", {}).get("schemas", {})
    lines = [
        "# HTTP",
        "",
        NOTE,
        "A server answers `GET /openapi.json` with the same as an OpenAPI 3.1 document.",
        "[Guide to the API](../guides/http-api.md) explains requests with examples; [errors](errors.md)",
        "has the codes.",
    ]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method not in ("get", "put", "post", "delete", "patch"):
                continue
            lines += ["", f"## {method.upper()} {path}", ""]
            text = operation.get("description") or operation.get("summary", "")
            lines.append(text)
            rows = [
                f"| `{p['name']}` ({p['in']}) | {cell(type_of(p.get('schema', {}), components))} | "
                f"{cell(p.get('description', ''))} |"
                for p in [*item.get("parameters", []), *operation.get("parameters", [])]
                if "name" in p
            ]
            if rows:
                lines += ["", "| parameter | type | meaning |", "| --- | --- | --- |", *rows]
            if body := content_of(operation.get("requestBody", {}), components):
                lines += ["", f"- Body: {body}"]
            else:
                lines.append("")
            errors = [status for status, reply in operation.get("responses", {}).items() if "$ref" in reply]
            for status, reply in operation.get("responses", {}).items():
                if "$ref" in reply:
                    continue
                kinds = content_of(reply, components)
                lines.append(f"- {status}: {reply.get('description', '')}{f' {kinds}' if kinds else ''}")
            if errors:
                lines.append(f"- Error statuses with [codes](errors.md): {', '.join(errors)}")
    lines += ["", "## Schemas"]
    for name, schema in components.items():
        lines += ["", f"### {name}", ""]
        if schema.get("description"):
            lines += [schema["description"], ""]
        needed = schema.get("required", [])
        rows = [
            f"| `{field}` | {cell(type_of(part, components))} | {'yes' if field in needed else ''} | "
            f"{cell(part.get('description', ''))} |"
            for field, part in schema.get("properties", {}).items()
        ]
        lines += (
            ["| field | type | required | meaning |", "| --- | --- | --- | --- |", *rows]
            if rows
            else [f"Type: {type_of(schema, components)}."]
        )
    return "\n".join([*lines, ""])


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--troupe", required=True)
    options.add_argument("--write", action="store_true")
    options = options.parse_args()
    troupe = str(pathlib.Path(options.troupe).resolve())
    pages = {"settings.md": settings(troupe), "cli.md": commands(troupe)}
    with Served(troupe) as served:
        pages |= {"metrics.md": metrics(served), "http.md": http(served)}
    stale = []
    for name, text in pages.items():
        path = PAGES / name
        text = re.sub(r"[ \t]+$", "", text, flags=re.M)
        if options.write:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            stale.append(name)
            present = path.read_text().split("\n") if path.is_file() else []
            print(
                "\n".join(
                    list(
                        difflib.unified_diff(
                            present,
                            text.split("\n"),
                            f"docs/reference/{name}",
                            "the program",
                            lineterm="",
                            n=1,
                        )
                    )[:40]
                )
            )
    if stale:
        print(f"stale: {', '.join(stale)}; run tests/docs/reference.py --troupe {options.troupe} --write")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
