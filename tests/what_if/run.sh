#!/usr/bin/env bash
# Compares the simulator with a real node; tests/what_if/what_if.py describes the options.
#   tests/what_if/run.sh --short       demo world: time-independent figures exactly, times loosely (ctest)
#   tests/what_if/run.sh --out FOLDER  the whole table on an idle machine; resumes where it was stopped
# TROUPE_LAB names the program; default: build/deploy/troupe-lab. Exit status 1 if a bound is exceeded.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec python3 -B "$here/what_if.py" --lab "${TROUPE_LAB:-$here/../../build/deploy/troupe-lab}" "$@"
