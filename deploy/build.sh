#!/usr/bin/env bash
# Installs the packages that a fresh Debian 12 lacks, and builds. Without targets it builds everything, with
# tests, and with CUDA if nvcc is found. With targets it builds only these and installs only the packages of a
# single node. Used by quickstart.sh and test.sh. Safe to run again.
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
# quickstart.sh builds without CUDA in the folder where test.sh builds with it, so the choice is made each
# time.
cuda=-UTROUPE_CUDA
if [ $# -gt 0 ] && [ "$preset" != cuda ]; then cuda=-DTROUPE_CUDA=OFF; fi
architectures=-UTROUPE_CUDA_ARCHITECTURES
if [ -n "${TROUPE_CUDA_ARCHITECTURES:-}" ]; then
  architectures=-DTROUPE_CUDA_ARCHITECTURES=$TROUPE_CUDA_ARCHITECTURES
fi
cmake --preset "$preset" $cuda "$architectures" >/dev/null
cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}
