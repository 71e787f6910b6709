#!/usr/bin/env bash
# Runs real processes on hosts of their own (network namespaces), one fault after the other, while clients
# ask and write.
#   TROUPE=build/deploy/troupe tests/chaos/run.sh [--long] [--asks generate|several] [--kills N] [--parts A,B]
#                                                 [--clear] [--placement P] [--transport T]
#                                                 [--json FILE] [--folder FOLDER]
# --long adds an upgrade from the program $TROUPE_OLD (default: the same one), and 100 kills of each role.
# Exit status 0 if all promises were kept, 77 if this machine cannot run it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
troupe=${TROUPE:-$here/../../build/deploy/troupe}
exec python3 "$here/chaos.py" --troupe "$troupe" --old "${TROUPE_OLD:-$troupe}" "$@"
