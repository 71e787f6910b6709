#!/bin/sh
# HLEM's figures on simulated nodes; prints "paper / Troupe" and fails where a bound is missed. TROUPE: the program to ask;
# else that of the build folder. Options: hlem.py --help.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/hlem.py" --troupe "${TROUPE:-$here/../../../build/deploy/troupe}" "$@"
