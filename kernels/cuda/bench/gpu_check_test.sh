#!/bin/bash
# Tests kernels/gpu_check.sh on fake machines: its first and last lines and its exit status for a broken
# driver, and for sanitizers that fail or run out of time.
set -uo pipefail
check=$(cd "$(dirname "$0")/../.." && pwd)/gpu_check.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/build/cuda"
failed=0
fake() {  # name, status, output
  printf '#!/bin/bash\nprintf "%%s\\n" "%s"\nexit %s\n' "$3" "$2" > "$work/bin/$1"
  chmod +x "$work/bin/$1"
}
expect() {  # case, expected status, text expected in the output
  local status=0 printed
  printed=$(PATH="$work/bin:$PATH" "$check" --parts sanitize --build "$work/build" --jobs 1 2>&1) || status=$?
  if [ $status -ne "$2" ] || ! grep -qF "$3" <<< "$printed"; then
    echo "FAILED: $1: ended with $status; expected $2 and \"$3\" in:"
    echo "$printed"
    failed=1
  fi
}
fake nvidia-smi 9 "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
expect "a driver that does not answer" 3 "GPU: none;"
fake nvidia-smi 0 "No devices were found"
expect "a driver without a device" 3 "GPU: none;"

fake nvidia-smi 0 "Some GPU, 9.0, 570.1"
fake compute-sanitizer 0 "========= ERROR SUMMARY: 0 errors"
expect "sanitizers that find nothing" 0 "GPU: Some GPU, 9.0, 570.1;"
fake compute-sanitizer 9 "========= ERROR SUMMARY: 2 errors"
expect "a sanitizer that finds something" 1 "compute-sanitizer racecheck: see"
fake timeout 124 ""
expect "sanitizers that run out of time" 1 "compute-sanitizer synccheck: timed out after"
[ $failed -ne 0 ] || echo "gpu_check.sh reports a broken driver, and sanitizers that fail or do not end"
exit $failed
