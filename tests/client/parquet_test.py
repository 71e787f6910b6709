#!/usr/bin/env python3
"""Checks deploy/client/parquet_rows.py: values as lines of JSON, failures, and a file of another program.

  tests/client/parquet_test.py --troupe build/deploy/troupe

npm's hyparquet-writer, installed into a temporary folder, writes events with times, numbers and quotes; the
tool reads them, and `troupe import` takes the lines. Without npm, its registry or pyarrow that part is
skipped, with exit status 77. Exit status 1 on any difference.
"""
import argparse
import datetime
import decimal
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "deploy" / "client" / "parquet_rows.py"
DEMO = ROOT / "deploy" / "demo"
sys.path.insert(0, str(TOOL.parent))
from parquet_rows import ColumnError, line_of

WRITER = "hyparquet-writer@0.17.0"
WRITE = """
import { parquetWriteFile } from 'hyparquet-writer'
parquetWriteFile({ filename: 'events.parquet', columnData: [
  { name: 'reviewer', data: ['ana "A", Oslo', 'bob', 'ana "A", Oslo'], type: 'STRING' },
  { name: 'asin', data: ['camp-0002', 'camp-0001', 'camp-0001'], type: 'STRING' },
  { name: 'at', data: [new Date(20500), new Date(5000), new Date(10999)], type: 'TIMESTAMP' },
  { name: 'stars', data: [5, 3.5, 4], type: 'DOUBLE' },
]})
"""
LINES = [
    {"reviewer": 'ana "A", Oslo', "asin": "camp-0002", "at": "1970-01-01T00:00:20.5", "stars": 5.0},
    {"reviewer": "bob", "asin": "camp-0001", "at": "1970-01-01T00:00:05", "stars": 3.5},
    {"reviewer": 'ana "A", Oslo', "asin": "camp-0001", "at": "1970-01-01T00:00:10.999", "stars": 4.0},
]
faults = []


def expect(holds, what):
    if not holds:
        faults.append(what)
        print("WRONG " + what)


def check_values():
    utc = datetime.timezone.utc
    for value, written in [
        ('a "b" ü\n', '"a \\"b\\" ü\\n"'),
        (7, "7"),
        (2**63, "9223372036854775808"),
        (1.5, "1.5"),
        (float("nan"), "null"),
        (float("inf"), "null"),
        (None, "null"),
        (decimal.Decimal("4.00"), "4"),
        (decimal.Decimal("4.5"), "4.5"),
        (b"text", '"text"'),
        (datetime.date(2018, 5, 3), '"2018-05-03"'),
        (datetime.datetime(2018, 5, 3, 13, 22, 8), '"2018-05-03T13:22:08"'),
        (datetime.datetime(2018, 5, 3, 13, 22, 8, tzinfo=utc), '"2018-05-03T13:22:08+00:00"'),
        (["a", 1, None], '["a", 1, null]'),
    ]:
        line = line_of(["x"], [value])
        expect(line == '{"x": ' + written + "}", f"{value!r} is written as {line}")
    for value in [{"a": 1}, b"\xff", datetime.timedelta(1)]:
        try:
            line_of(["x"], [value])
            expect(False, f"{value!r} is taken")
        except ColumnError as error:
            expect("column x" in str(error) and "; expected " in str(error), f"{value!r}: {error}")


# A stand-in for pyarrow, whose Parquet files are JSON: a list of names and a list of rows.
PYARROW = """
import json, types
class ArrowException(Exception): pass
types.is_timestamp = lambda kind: False
class Column:
    def __init__(self, values): self.values, self.type = values, None
    def to_pylist(self): return self.values
class ParquetFile:
    def __init__(self, path):
        names, self.rows = json.load(open(path))
        self.schema_arrow = types.SimpleNamespace(names=names)
    def iter_batches(self, batch_size, columns):
        for row in self.rows:
            columns = [Column([value]) for value in row]
            yield types.SimpleNamespace(schema=self.schema_arrow, columns=columns)
"""


def check_failures(folder, troupe):
    """An error in the middle must not look like the end of the rows."""
    package = folder / "stand-in" / "pyarrow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PYARROW)
    (package / "parquet.py").write_text("from pyarrow import ParquetFile\n")
    file, out = folder / "half.parquet", folder / "rows.jsonl"
    settings = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}

    def tool(*words):
        return run([sys.executable, TOOL, file, *words], env=settings)

    file.write_text(json.dumps([["user", "item"], [["ana", "camp-0001"], ["bob", {"a": 1}]]]))
    done = tool()
    expect(done.returncode == 1 and "column item has values of the type dict" in done.stderr, done.stderr)
    expect(len(done.stdout.splitlines()) == 2, f"the rows before the error are {done.stdout}")
    model = DEMO / "model"
    words = [troupe, "import", "--model", model, "--jsonl", "-", "--data-dir", folder / "none"]
    columns = ["--columns", "user=user,item=item"]
    done = run([*words, *columns], input=done.stdout)
    expect(
        done.returncode == 1 and done.stderr.startswith("troupe: standard input:2: "),
        f"half of the rows are imported: {done.stdout}{done.stderr}",
    )
    done = run([*words, *columns], input="")
    expect(
        done.returncode == 1 and "standard input:1: the file is empty" in done.stderr,
        f"no rows are imported: {done.stdout}{done.stderr}",
    )
    out.write_text("before")
    expect(tool("--out", out).returncode == 1, "an error with --out is not told")
    expect(out.read_text() == "before", f"a file of half of the rows was written: {out.read_text()}")
    done = tool("--out", folder / "missing" / "rows.jsonl")
    expect(done.returncode == 1 and "expected a file in an existing folder" in done.stderr, done.stderr)
    file.write_text(json.dumps([["user", "item"], [["ana", "camp-0001"]]]))
    expect(tool("--out", out).returncode == 0 and out.read_text().count("\n") == 1, "--out is not written")
    file.write_text(json.dumps([["user", "user"], [["ana", "bob"]]]))
    done = tool()
    expect(done.returncode == 1 and "column user is there twice" in done.stderr, done.stderr)
    with open(os.devnull, "rb") as nothing:
        file.write_text(json.dumps([["user"], [["ana"]] * 100_000]))
        head = subprocess.run(
            ["sh", "-c", '"$0" "$1" "$2" | head -1; exit 0', sys.executable, str(TOOL), str(file)],
            stdin=nothing,
            capture_output=True,
            text=True,
            env=settings,
        )
    expect("Traceback" not in head.stderr and "reader of the rows ended" in head.stderr, head.stderr)


def skip(why):
    print(f"skipped: {why}; the rules of values and failures were checked")
    sys.exit(1 if faults else 77)


def run(words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)


def written_file(folder):
    """Returns a Parquet file by hyparquet-writer."""
    if not shutil.which("npm") or not shutil.which("node"):
        skip("npm is missing")
    done = run(["npm", "install", "--silent", "--no-audit", "--no-fund", WRITER], cwd=folder, timeout=120)
    if done.returncode:
        skip("npm cannot install " + WRITER)
    (folder / "write.mjs").write_text(WRITE)
    done = run(["node", "write.mjs"], cwd=folder)
    expect(done.returncode == 0, "hyparquet-writer failed: " + done.stderr)
    return folder / "events.parquet"


def check_file(folder, troupe):
    file = written_file(folder)
    done = run([sys.executable, TOOL, file])
    if done.returncode == 77:
        expect("pip install pyarrow" in done.stderr, "the tool does not name pyarrow: " + done.stderr)
        skip("no reader of Parquet is installed (pip install pyarrow)")
    expect(done.returncode == 0, "the tool failed: " + done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines:  # a time may have an offset, and zeros behind its fraction
        time = datetime.datetime.fromisoformat(line["at"]).replace(tzinfo=None)
        line["at"] = time.isoformat(timespec="microseconds").rstrip("0").rstrip(".")
    expect(lines == LINES, f"the lines are {lines}")
    model, data = DEMO / "model", folder / "data"
    done = run([troupe, "import", "--model", model, "--data", DEMO / "world", "--data-dir", data])
    expect(done.returncode == 0, "the demo world is not imported: " + done.stderr)
    columns = "user=reviewer,item=asin,timestamp=at:iso"
    rows = run([sys.executable, TOOL, file, "--columns", "reviewer,asin,at"]).stdout
    words = [troupe, "import", "--model", model, "--jsonl", "-", "--columns", columns, "--data-dir", data]
    done = run(words, input=rows)
    expect(
        done.returncode == 0 and "and 2 users" in done.stdout and "1970-01-01T00:00:20Z" in done.stdout,
        f"the lines are not imported: {done.stdout}{done.stderr}",
    )
    done = run([sys.executable, TOOL, file, "--columns", "asin,colour"])
    expect(done.returncode == 1 and "no column colour; expected some of reviewer" in done.stderr, done.stderr)
    done = run([sys.executable, TOOL, __file__])
    expect(done.returncode == 1 and "parquet_test.py: " in done.stderr, done.stderr)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", type=pathlib.Path, required=True)
    options = parser.parse_args()
    check_values()
    with tempfile.TemporaryDirectory(prefix="troupe-parquet-") as folder:
        check_failures(pathlib.Path(folder), options.troupe.resolve())
        check_file(pathlib.Path(folder), options.troupe.resolve())
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
