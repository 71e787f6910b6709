#!/usr/bin/env python3
"""Writes the rows of Parquet files as lines of JSON, which `troupe import --jsonl -` reads.

    parquet_rows.py events.parquet --columns reviewer,asin,ts |
      troupe import --jsonl - --columns user=reviewer,item=asin,timestamp=ts:iso --model MODEL --data-dir DATA

Reads with pyarrow (`pip install pyarrow`). Times and dates become texts of ISO 8601 (form `iso`), with their
offset if the column has a time zone. Missing values and NaN become null. Columns of texts, numbers and times,
and lists of them, can be written; others are an error, unless --columns leaves them out. Exit status 1 on an
error, 77 without pyarrow. After an error the file of --out is as it was before, and standard output ends with
a line that is no JSON, so that `troupe import` refuses the rows before it.
"""
import argparse
import datetime
import decimal
import json
import math
import os
import sys

ROWS_AT_ONCE = 10_000


class ColumnError(ValueError):
    """A value that a line of JSON cannot have."""


def plain(value, column):
    """Returns the value as json.dumps takes it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise ColumnError(f"column {column} has bytes that are not UTF-8; expected text") from None
    if isinstance(value, (list, tuple)):
        return [plain(element, column) for element in value]
    raise ColumnError(
        f"column {column} has values of the type {type(value).__name__}; expected texts, numbers, times or "
        "lists of them; --columns leaves a column out"
    )


def line_of(names, values):
    return json.dumps({name: plain(value, name) for name, value in zip(names, values)}, ensure_ascii=False)


def in_microseconds(arrow, column):
    """Casts times to microseconds: Python's times have no nanoseconds."""
    if not arrow.types.is_timestamp(column.type) or column.type.unit != "ns":
        return column
    return column.cast(arrow.timestamp("us", tz=column.type.tz), safe=False)


def lines_of(path, columns):
    import pyarrow
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    present = file.schema_arrow.names
    if twice := [name for name in columns or present if present.count(name) > 1]:
        raise ColumnError(f"column {twice[0]} is there twice; expected each column once")
    if missing := [name for name in columns or [] if name not in present]:
        raise ColumnError(f"there is no column {missing[0]}; expected some of {', '.join(present)}")
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns):
        names = batch.schema.names
        values = [in_microseconds(pyarrow, column).to_pylist() for column in batch.columns]
        for row in zip(*values):
            yield line_of(names, row)


def write_rows(out, files, columns):
    """Writes the rows of all files. Returns the fault that ended this, or nothing."""
    import pyarrow

    for path in files:
        try:
            for line in lines_of(path, columns):
                out.write(line + "\n")
        except BrokenPipeError:
            raise
        except (ColumnError, OSError, pyarrow.ArrowException) as error:
            return f"{path}: {error}"
    return None


def write_file(path, files, columns):
    part = path + ".part"
    try:
        with open(part, "w", encoding="utf-8") as out:
            fault = write_rows(out, files, columns)
        if fault:
            os.unlink(part)
        else:
            os.replace(part, path)
        return fault
    except OSError as error:
        return f"{path}: {error.strerror}; expected a file in an existing folder with free space"


def write_standard_output(files, columns):
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        fault = write_rows(sys.stdout, files, columns)
        if fault:
            print(f"parquet_rows.py failed: {fault}")
        sys.stdout.flush()
        return fault
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more is written at the exit
        return "the reader of the rows ended; its error says why"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", help="Parquet files with the same columns")
    parser.add_argument("--columns", default="", help="columns to write, separated by commas; default: all")
    parser.add_argument("--out", default="-", help="file to write; default: standard output")
    options = parser.parse_args()
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        print("parquet_rows.py: pyarrow is missing; expected `pip install pyarrow` first", file=sys.stderr)
        return 77
    columns = options.columns.split(",") if options.columns else None
    if options.out == "-":
        fault = write_standard_output(options.files, columns)
    else:
        fault = write_file(options.out, options.files, columns)
    if fault:
        print(f"parquet_rows.py: {fault}", file=sys.stderr)
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
