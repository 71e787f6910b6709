#!/usr/bin/env bash
# Installs, builds and runs every test. What this machine cannot do (a GPU, data beside the checkout) is skipped with
# a line that says so. Ends with ctest's count.
#   deploy/test.sh [preset]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
folder=build
[ "$preset" = release ] || folder=build-$preset
deploy/build.sh "$preset"

export UBSAN_OPTIONS=suppressions=$PWD/tests/ubsan.supp:print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=suppressions=$PWD/tests/tsan.supp
status=0
ctest --preset "$preset" --no-tests=error --parallel $(($(nproc) * 2)) | tee "$folder/ctest.txt" || status=$?
grep -ahi 'skipped[:,]' "$folder/Testing/Temporary/LastTest.log" | sort -u || true
echo "the slowest:"
sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([a-z_0-9]+) .* ([0-9.]+) sec.*/\2 s  \1/p' "$folder/ctest.txt" | sort -rn | head -8
grep -a 'tests passed' "$folder/ctest.txt" | tail -1
exit $status
