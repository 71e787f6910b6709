#!/bin/bash
# Prints a Markdown table of every kernel's resources, its blocks per multiprocessor and its instruction
# counts, for sm_80 and sm_90a. It covers all kernels of all .cu files, and fails if products are
# serialized. Needs nvcc, g++ and python3, but no GPU and no disassembler. Usage:
# kernels/cuda/bench/resources.sh [architecture...]
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
architectures=${*:-80 90a}

assemble() {  # source architecture name
  mkdir -p "$work/$3_$2"
  "$root/kernels/cuda/bench/checked_nvcc.sh" nvcc -std=c++20 -O3 -gencode=arch=compute_"$2",code=sm_"$2" \
    -Xptxas -v -I"$root" --keep --keep-dir "$work/$3_$2" \
    -cubin "$1" -o "$work/$3_$2.cubin" 2> "$work/$3_$2.log" || { cat "$work/$3_$2.log" >&2; exit 1; }
}

cp "$root/kernels/cuda/bench/resources_probe.cu.txt" "$work/probe.cu"
for architecture in $architectures; do
  assemble "$work/probe.cu" "$architecture" probe
  python3 "$root/kernels/cuda/bench/resources.py" check "$work" probe "$architecture"
done
nvcc --version | grep release
for architecture in $architectures; do
  names=()
  for source in "$root"/kernels/cuda/kernels/*.cu; do
    assemble "$source" "$architecture" "$(basename "$source" .cu)"
    names+=("$(basename "$source" .cu)")
  done
  echo
  echo "sm_$architecture"
  python3 "$root/kernels/cuda/bench/resources.py" table "$work" "$architecture" "${names[@]}"
done
