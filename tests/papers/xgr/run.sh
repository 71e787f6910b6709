#!/bin/sh
# Runs xGR's comparisons on this machine's CPU: the engine alone and nodes over HTTP; prints "paper / Troupe";
# exit status 1 if a bound is missed. TROUPE, TROUPE_LAB: the programs; default: those of the build folder.
# Options: xgr.py --help.
here=$(cd "$(dirname "$0")" && pwd)
built="$here/../../../build/deploy"
lab="${TROUPE_LAB:-$built/troupe-lab}"
exec python3 -B "$here/xgr.py" --lab "$lab" --troupe "${TROUPE:-$built/troupe}" "$@"
