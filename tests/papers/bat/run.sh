#!/bin/sh
# Runs BAT's tables and figures on simulated clusters; prints "paper / Troupe"; exit status 1 if a bound
# is missed. TROUPE_LAB: the program; default: that of the build folder. Options: bat.py --help.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/bat.py" --lab "${TROUPE_LAB:-$here/../../../build/deploy/troupe-lab}" "$@"
