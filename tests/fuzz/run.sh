#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs each for its share of the time; prints executions and coverage.
# Exit status 1 at a crash, a leak, a timeout or too much memory; names the input and how to run it again.
#   tests/fuzz/run.sh MINUTES [--fast] [--json FILE] [TARGET...]
#   tests/fuzz/run.sh --minimise [TARGET...]    moves findings, as few small files, to tests/fuzz/corpus
# --fast: without sanitizers, several times as fast; for volume, after they found nothing. Debian
# packages: clang, libclang-rt-14-dev, and packages.txt.
set -euo pipefail
cd "$(dirname "$0")/../.."
sanitize=address,undefined
build=build-fuzz
for word in "$@"; do
  [ "$word" != --fast ] || { sanitize=; build=build-fuzz-fast; }
done
echo 'int main() {}' | clang++ -fsanitize=fuzzer-no-link,address -x c++ - -o /dev/null 2>/dev/null ||
  { echo "clang++ cannot build fuzzers; expected Debian's clang and libclang-rt-14-dev"; exit 77; }
mkdir -p $build
cmake -S tests/fuzz/targets -B $build -G Ninja -DCMAKE_CXX_COMPILER=clang++ \
  -DTROUPE_FUZZ_SANITIZE=$sanitize >$build/run.log
cmake --build $build >>$build/run.log || { tail -30 $build/run.log; exit 1; }
exec python3 -B tests/fuzz/fuzz.py --build $build "$@"
