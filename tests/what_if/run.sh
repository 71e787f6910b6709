#!/usr/bin/env bash
# What the simulator says, beside what a real box does: tests/what_if/foresight.py has the options.
#   tests/what_if/run.sh --short       the demo world; what does not depend on time exactly, times loosely (ctest)
#   tests/what_if/run.sh --out FOLDER  the whole table on a quiet machine; it goes on where it was stopped
# TROUPE names the program; default: build/deploy/troupe. Exits with 1 where a bound is missed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec python3 -B "$here/foresight.py" --troupe "${TROUPE:-$here/../../build/deploy/troupe}" "$@"
