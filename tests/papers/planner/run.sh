#!/bin/sh
# Compares the planner with each single policy on the workloads of the papers and on a real node. Exit status
# 1 if the planner is below the best of them by more than the runs' spread. TROUPE_LAB: the program; default:
# that of the build folder. Options: planner.py --help.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/planner.py" --lab "${TROUPE_LAB:-$here/../../../build/deploy/troupe-lab}" "$@"
