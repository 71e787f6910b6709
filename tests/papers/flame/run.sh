#!/bin/sh
# Prints FLAME's Tables 3, 4 and 5, the paper's beside Troupe's on this machine's CPU. PEERS: the folder where
# tests/bench/peers/setup.sh installed onnxruntime; or --results FILE, written by tests/bench/climber.py.
# Options: flame.py --help.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/flame.py" ${PEERS:+--peers "$PEERS"} "$@"
