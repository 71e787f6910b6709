#!/usr/bin/env bash
# Installs, builds and runs every test. What this machine cannot do (a GPU, data beside the checkout) is skipped with
# a line that says so. Ends with ctest's count.
#   deploy/test.sh [preset]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
deploy/build.sh "$preset"
ctest --preset "$preset" --no-tests=error
