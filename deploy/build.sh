#!/usr/bin/env bash
# Installs what a fresh Debian 12 lacks and builds. Without targets: everything, tests and CUDA where nvcc is found. With
# targets: these alone, and what one box needs for them. Used by quickstart.sh and test.sh; safe to run again.
#   deploy/build.sh [preset] [target...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
[ $# -gt 0 ] && shift

if [ $# -gt 0 ]; then
  deploy/install.sh packages
else
  deploy/install.sh packages packages-cluster packages-tests
fi
# Two names for one choice: quickstart.sh builds without CUDA in the folder in which test.sh builds with it.
cuda=-UTROUPE_CUDA
if [ $# -gt 0 ] && [ "$preset" != cuda ]; then cuda=-DTROUPE_CUDA=OFF; fi
cmake --preset "$preset" $cuda >/dev/null
cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}
