#!/bin/sh
# FLAME's Tables 3, 4 and 5 on this machine's CPU; prints "paper" and "Troupe" side by side. PEERS: the folder where
# tests/bench/peers/setup.sh installed onnxruntime; or --results FILE, what tests/bench/climber.py wrote. Options:
# flame.py --help.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/flame.py" ${PEERS:+--peers "$PEERS"} "$@"
