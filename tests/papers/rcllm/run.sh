#!/bin/sh
# RcLLM's figures on simulated clusters; prints "paper / Troupe" and fails where a bound is missed. TROUPE: the program to
# ask; else that of the build folder. Options: rcllm.py --help.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/rcllm.py" --troupe "${TROUPE:-$here/../../../build/deploy/troupe}" "$@"
