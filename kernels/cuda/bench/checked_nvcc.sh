#!/bin/bash
# Runs a CUDA compiler and fails where ptxas reports C7501 to C7599: wgmma that it serializes, because something
# touches a product's registers before its wait. Results stay right and the time doubles, and to nvcc that is
# information, not a warning. Stands before the compiler cache, which repeats what it recorded the compiler saying.
# Usage: checked_nvcc.sh COMPILER ARGUMENT...
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
  echo "checked_nvcc.sh: ptxas serializes wgmma (C75xx above); expected products that run beside the threads" >&2
  [ $status -ne 0 ] || status=1
fi
exit $status
