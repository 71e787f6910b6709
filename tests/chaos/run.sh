#!/usr/bin/env bash
# Real processes on hosts of their own (network namespaces), one fault after the other while a client asks.
#   TROUPE=build/deploy/troupe tests/chaos/run.sh [--long] [--kills N] [--json FILE] [--folder FOLDER]
# Ends with 0 if all promises were kept, 77 if this machine cannot do it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/chaos.py" --troupe "${TROUPE:-$here/../../build/deploy/troupe}" "$@"
