#!/usr/bin/env bash
# Installs, builds and runs every test, and prints how long each step took. A test that needs something that
# this machine lacks (a GPU, data beside the checkout) is skipped with a line that says so. Ends with ctest's
# count.
#   deploy/test.sh [preset]            # release, debug, asan or cuda; default: release
#   deploy/test.sh tsan                # the thread sanitizer: runtime, router, server, actors, and a served
#                                      # node under load; no report may remain (tests/tsan.supp)
#   deploy/test.sh --fast [preset]     # clang-format, the tidy test and the unit tests only
set -euo pipefail
cd "$(dirname "$0")/.."
fast=
if [ "${1:-}" = --fast ]; then
  fast=yes
  shift
fi
preset=${1:-release}
folder=build
[ "$preset" = release ] || folder=build-$preset

began=$SECONDS
step() {  # prints the seconds of the step that ends
  echo "== $1: $((SECONDS - began)) s"
  began=$SECONDS
}

targets=() run=()
if [ -n "$fast" ]; then
  targets=(tidy_test kernels_test placement_test runtime_test actors_test router_test server_test sim_test
    deploy_test lab_test)
  select=(-L unit)
elif [ "$preset" = tsan ]; then
  targets=(runtime_test actors_test router_test server_test troupe)
  select=(-R '^(runtime|actors|router|server|server_under_load)$')
fi
if [ "$preset" = tsan ]; then
  # The sanitizer of GCC 12 ends at once where the kernel chooses addresses with more random bits than it
  # knows.
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    run=(setarch "$(uname -m)" -R)
  else
    echo "addresses stay random: if programs end with 'unexpected memory mapping', allow personality(2)" \
      "or set vm.mmap_rnd_bits to 28"
  fi
fi
if [ ${#targets[@]} -gt 0 ]; then
  deploy/install.sh packages packages-cluster packages-tests
  step "install"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" --parallel "$(nproc)" --target "${targets[@]}"
  step "build"
else
  # Without a GPU no kernel runs here, and one architecture shows whether they compile.
  if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
    export TROUPE_CUDA_ARCHITECTURES=${TROUPE_CUDA_ARCHITECTURES:-90a}
  fi
  deploy/build.sh "$preset"
  step "install and build"
  select=()
fi

export UBSAN_OPTIONS=suppressions=$PWD/tests/ubsan.supp:print_stacktrace=1:halt_on_error=1
# A program with a report goes on, and ends with status 66.
export TSAN_OPTIONS=suppressions=$PWD/tests/tsan.supp:history_size=4:exitcode=66
status=0
"${run[@]}" ctest --preset "$preset" --no-tests=error --parallel $(($(nproc) * 2)) "${select[@]}" |
  tee "$folder/ctest.txt" || status=$?
step "test"
grep -ahi 'skipped[:,]' "$folder/Testing/Temporary/LastTest.log" | sort -u || true
echo "the slowest:"
sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([a-z_0-9]+) .* ([0-9.]+) sec.*/\2 s  \1/p' "$folder/ctest.txt" |
  sort -rn | head -8
grep -a 'tests passed' "$folder/ctest.txt" | tail -1
exit $status
