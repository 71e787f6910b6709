#!/bin/sh
# Prints FLAME's Tables 3, 4 and 5, the paper's beside Troupe's on this machine's CPU. PEERS: the folder where
# tests/bench/peers/setup.sh installed onnxruntime; or --results FILE, written by tests/bench/climber.py; or
# --short, which runs the code of each mechanism and fails if a bound is missed. TROUPE_LAB, TROUPE_TESTS: the
# program and the folder of the benchmarks; default: those of the build folder. Options: flame.py --help.
here=$(cd "$(dirname "$0")" && pwd)
built="$here/../../../build"
exec python3 -B "$here/flame.py" --lab "${TROUPE_LAB:-$built/deploy/troupe-lab}" \
  --tests "${TROUPE_TESTS:-$built/tests}" ${PEERS:+--peers "$PEERS"} "$@"
