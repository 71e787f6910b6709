#!/bin/sh
# Runs RcLLM's figures on simulated clusters; prints "paper / Troupe"; exit status 1 if a bound is missed.
# TROUPE_LAB: the program; default: that of the build folder. Options: rcllm.py --help.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/rcllm.py" --lab "${TROUPE_LAB:-$here/../../../build/deploy/troupe-lab}" "$@"
