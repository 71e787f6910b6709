#!/bin/sh
# Runs HLEM's figures on simulated nodes; prints "paper / Troupe"; exit status 1 if a bound is missed.
# TROUPE_LAB: the program; default: that of the build folder. Options: hlem.py --help.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/hlem.py" --lab "${TROUPE_LAB:-$here/../../../build/deploy/troupe-lab}" "$@"
