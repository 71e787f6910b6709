#!/bin/bash
# Runs a CUDA compiler and fails if ptxas reports C7501 to C7599: it serializes wgmma, because something
# accesses a product's registers before its wait. Results stay correct but the time doubles; nvcc reports
# this as information, not as a warning. This script runs before the compiler cache, which replays the
# compiler's recorded output. Usage: checked_nvcc.sh COMPILER ARGUMENT...
set -uo pipefail
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
"$@" > "$said" 2>&1
status=$?
cat "$said" >&2
if grep -Eq '\(C75[0-9][0-9]\)' "$said"; then
  previous=""
  for argument in "$@"; do
    [ "$previous" != -o ] || rm -f "$argument"
    previous=$argument
  done
  echo "checked_nvcc.sh: ptxas serializes wgmma (C75xx above); expected asynchronous products" >&2
  [ $status -ne 0 ] || status=1
fi
exit $status
