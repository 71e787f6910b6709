#!/usr/bin/env bash
# Builds, tests and times the CUDA kernels on a machine that may have little more than nvcc, cmake and
# g++, and no network. Prints one table last.
#
#   kernels/gpu_check.sh [--dependencies DIR] [--json FILE] [--parts LIST] [--seed N] [--rounds N]
#                        [--build DIR] [--jobs N]
#   kernels/gpu_check.sh --collect DIR
#
# --dependencies  folder with include/ and lib/ of the libraries that kernels/ needs and the machine lacks
# --collect       fills such a folder and ends. Run it on a machine with the same kind of processor that has
#                 the packages
#                   apt-get install doctest-dev nlohmann-json3-dev libssl-dev libhwy-dev \
#                     libboost-context1.81-dev
#                 The folder takes about 20 MB; copy it together with the sources. Only the emulator needs
#                 Boost.Context.
# --parts         some of build,test,sanitize,peers,bench (default: all). A part uses the results of
#                 earlier runs in the build folder, so that the parts fit a limit on a command's time.
#                 Each of these takes under ten minutes on 16 cores, the most important first:
#                   build,test,bench   then   peers,bench   then   sanitize
#   build     compiles for the GPU of this machine; without one for sm_80 and sm_90a
#   test      runs the kernels' tests on the emulator and on the device, and every row of the benchmark
#             against its reference on numbers drawn from the seed, with poisoned outputs
#   sanitize  runs the device's tests under compute-sanitizer (memcheck, racecheck, synccheck), if installed
#   peers     runs the benchmark's models and shapes in PyTorch, if installed: same weights, logits compared
#   bench     prints times beside floors, rates beside ceilings of the same run, and PyTorch's times
#             beside both
# --jobs          compilers to run at once (default: one per core)
# --seed          of all numbers drawn; by default it is drawn itself, and printed
# --json          file for the table's contents, and more, as JSON
#
# Exit status: 0 = everything passed; 1 = something failed; 2 = bad arguments; 3 = no GPU, everything else
# passed, and a line names what was skipped. The script does not change the device's settings.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
dependencies="" json="" parts=build,test,sanitize,peers,bench
seed=$RANDOM$RANDOM rounds=15 build=$root/build-gpu
jobs=$(nproc)
sanitizer_seconds=180 test_seconds=240 peer_seconds=240
failed="" skipped=""

usage() {
  sed -n '/^#   kernels/,/^#$/s/^# *//p' "$0" >&2
  exit 2
}
say() { echo "== $*"; }
fail() { failed+="  $*"$'\n'; echo "FAILED: $*"; }
skip() { skipped+="  $*"$'\n'; echo "skipped: $*"; }
wants() { [[ ,$parts, == *,$1,* ]]; }

# Runs a command under a time limit and prints how long it took.
run() {  # seconds, command...
  local limit=$1 begin=$SECONDS status=0
  shift
  timeout "$limit" "$@" || status=$?
  echo "($((SECONDS - begin)) s)"
  return $status
}

collect() {
  local to=$1 multiarch header folder library name
  multiarch=$(g++ -print-multiarch)
  mkdir -p "$to/include" "$to/lib"
  for folder in hwy nlohmann doctest openssl; do
    for from in /usr/include "/usr/include/$multiarch"; do
      [ -d "$from/$folder" ] && cp -rL "$from/$folder" "$to/include/"
    done
    [ -d "$to/include/$folder" ] && continue
    echo "no headers of $folder; install the packages that $0 names" >&2
    exit 1
  done
  # Boost: only the headers that the emulator includes.
  grep -rhoE '<boost/[^>]+>' "$root/kernels" --include='*.cc' --include='*.h' | sort -u |
    sed 's/^/#include /' |
    g++ -std=c++20 -M -x c++ - | tr ' \\' '\n\n' | grep -E '/boost/' | while read -r header; do
    name=boost/${header#*/boost/}
    mkdir -p "$to/include/$(dirname "$name")"
    cp -L "$header" "$to/include/$name"
  done
  for library in libcrypto.a libboost_context.a libhwy.so; do
    from=$(g++ -print-file-name=$library)
    [ -e "$from" ] || { echo "no $library; install the packages that $0 names" >&2; exit 1; }
    cp -L "$from" "$to/lib/$library"
    name=$(objdump -p "$from" 2> /dev/null | awk '/SONAME/ {print $2}')
    [ -z "$name" ] || cp -L "$from" "$to/lib/$name"
  done
  du -sh "$to" | cut -f1
}

while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --collect) collect "$2"; exit 0 ;;
    --dependencies) dependencies=$(cd "$2" && pwd) || exit 2 ;;
    --json) json=$2 ;;
    --parts) parts=$2 ;;
    --seed) seed=$2 ;;
    --rounds) rounds=$2 ;;
    --build) build=$2 ;;
    --jobs) jobs=$2 ;;
    *) usage ;;
  esac
  shift 2
done
for part in ${parts//,/ }; do
  [[ $part =~ ^(build|test|sanitize|peers|bench)$ ]] || usage
done

# If nvidia-smi fails (no driver, no device), its output is an error text and there is no GPU.
gpu=$(nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2> /dev/null) || gpu=""
gpu=${gpu%%$'\n'*}
[[ $gpu =~ ,\ [0-9]+\.[0-9]+,\  ]] || gpu=""
export PATH=$PATH:/usr/local/cuda/bin
nvcc=$(command -v nvcc)
say "seed $seed; GPU: ${gpu:-none}; nvcc: ${nvcc:-none}; $(nproc) cores"
[ -z "$nvcc" ] || nvcc --version | grep release

architectures() {  # the GPU's architecture, or the two default ones; wgmma needs 90a
  case $gpu in
    "") echo "80;90a" ;;
    *", 9.0,"*) echo 90a ;;
    *) echo "$gpu" | sed 's/.*, \([0-9]*\)\.\([0-9]*\),.*/\1\2/' ;;
  esac
}

# Finds cuBLASLt in Python's packages, for a toolkit without it.
cublas_prefix() {
  [ -e "$(dirname "$(dirname "$nvcc")")/include/cublasLt.h" ] && return
  python3 -c 'import glob, sys
for path in sys.path:
    for found in glob.glob(path + "/nvidia/*/include/cublasLt.h"):
        print(found.rsplit("/include/", 1)[0]); sys.exit()' 2> /dev/null
}

prefix=$(cublas_prefix)
[ -z "$prefix" ] || export LD_LIBRARY_PATH=$prefix/lib:${LD_LIBRARY_PATH:-}

build_all() {
  local generator=()
  command -v ninja > /dev/null && generator=(-G Ninja)
  rm -f "$build/CMakeCache.txt"
  cmake -S "$root/kernels" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
    -DTROUPE_DEPENDENCIES="$dependencies" -DTROUPE_CUDA_ARCHITECTURES="$(architectures)" \
    -DTROUPE_CUDA_WARNINGS_ARE_ERRORS=OFF \
    ${prefix:+-DCMAKE_PREFIX_PATH="$prefix"} > "$build/build.log" 2>&1 &&
    cmake --build "$build" -j "$jobs" >> "$build/build.log" 2>&1
}

test_all() {
  run $test_seconds "$build/kernels_test" || fail "kernels_test"
  if [ -x "$build/cuda/cuda_emulated_test" ]; then
    run $test_seconds "$build/cuda/cuda_emulated_test" || fail "cuda_emulated_test"
    for profile in 80 86; do
      run $test_seconds "$build/cuda/cuda_emulated_test" --profile $profile --test-suite="cuda attention" ||
        fail "cuda_emulated_test --profile $profile"
    done
    run $test_seconds "$build/cuda/cuda_bench_emulated" --smoke --seed "$seed" || fail "cuda_bench_emulated"
  else
    skip "tests on the emulator: no Boost.Context here"
  fi
  [ -n "$gpu" ] || { skip "tests on the device: no GPU here"; return; }
  run $test_seconds "$build/cuda/cuda_test" || fail "cuda_test"
  run $test_seconds "$build/cuda/cuda_bench" --check --seed "$seed" || fail "cuda_bench --check"
}

sanitize() {
  local tool status
  [ -n "$gpu" ] || { skip "compute-sanitizer: no GPU here"; return; }
  command -v compute-sanitizer > /dev/null || { skip "compute-sanitizer: not installed"; return; }
  for tool in memcheck racecheck synccheck; do
    status=0
    run $sanitizer_seconds compute-sanitizer --tool $tool --error-exitcode 9 "$build/cuda/cuda_test" \
      > "$build/$tool.log" 2>&1 || status=$?
    tail -3 "$build/$tool.log"
    case $status in
      0) ;;
      9) fail "compute-sanitizer $tool: see $build/$tool.log" ;;
      124) fail "compute-sanitizer $tool: timed out after $sanitizer_seconds s without a result" ;;
      *)
        if grep -q 'ERROR SUMMARY' "$build/$tool.log"; then
          fail "cuda_test under compute-sanitizer $tool: see $build/$tool.log"
        else
          skip "compute-sanitizer $tool: ended with $status; it probably cannot use this device"
        fi
        ;;
    esac
  done
}

peers() {
  local status=0
  [ -n "$gpu" ] || { skip "peers: no GPU here"; return; }
  python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null ||
    { skip "peers: no PyTorch with a GPU"; return; }
  rm -f "$build/peers.json"
  run $test_seconds "$build/cuda/cuda_bench" --export "$build/exported" --seed "$seed" ||
    { fail "cuda_bench --export"; return; }
  run $peer_seconds python3 "$root/kernels/cuda/bench/bench_torch.py" "$build/exported" --rounds "$rounds" \
    --out "$build/peers.json" || status=$?
  case $status in
    0 | 77) ;;
    124) skip "peers: timed out after $peer_seconds s" ;;
    *) fail "bench_torch.py" ;;
  esac
}

bench() {
  [ -n "$gpu" ] || { skip "benchmark: no GPU here"; return; }
  local arguments=(--seed "$seed" --rounds "$rounds")
  [ -e "$build/peers.json" ] && arguments+=(--peers "$build/peers.json")
  [ -z "$json" ] || arguments+=(--json "$json")
  run $test_seconds "$build/cuda/cuda_bench" "${arguments[@]}" || fail "cuda_bench"
}

mkdir -p "$build"
if wants build; then
  say "build (log: $build/build.log)"
  begin=$SECONDS
  build_all || { tail -30 "$build/build.log"; fail "build"; parts=none; }
  echo "($((SECONDS - begin)) s)"
fi
[ -n "$nvcc" ] || skip "the device's kernels: no nvcc here"
wants test && say test && test_all
wants sanitize && say sanitize && sanitize
wants peers && say peers && peers
wants bench && say bench && bench

say "seed $seed"
[ -z "$skipped" ] || printf 'Skipped:\n%s' "$skipped"
if [ -n "$failed" ]; then
  printf 'Failed:\n%s' "$failed"
  exit 1
fi
[ -n "$gpu" ] || { echo "No GPU here: nothing ran on a device, and nothing was timed."; exit 3; }
