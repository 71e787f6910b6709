#!/bin/sh
# The planner beside each single policy on the workloads of the papers; prints a table and fails where it is below the
# best of them by more than the runs' spread. TROUPE: the program to ask; else that of the build folder.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/planner.py" --troupe "${TROUPE:-$here/../../../build/deploy/troupe}" "$@"
