#!/bin/bash
# Static evidence: what each kernel takes and which instructions it became, for sm_80 and sm_90a, as a Markdown table.
# Needs nvcc and python3, no GPU and no disassembler. Usage: kernels/cuda/resources.sh [architecture...]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
architectures=${*:-80 90a}

assemble() {  # source architecture name
  nvcc -std=c++20 -O3 -gencode=arch=compute_"$2",code=sm_"$2" -Xptxas -v -I"$root" -cubin "$1" \
    -o "$work/$3_$2.cubin" 2> "$work/$3_$2.log"
}

cp "$root/kernels/cuda/resources_probe.cu.txt" "$work/probe.cu"
for architecture in $architectures; do
  assemble "$work/probe.cu" "$architecture" probe
  python3 "$root/kernels/cuda/resources.py" check "$work/probe_$architecture"
  for source in "$root"/kernels/cuda/*.cu; do
    assemble "$source" "$architecture" "$(basename "$source" .cu)"
  done
done
nvcc --version | grep release
for architecture in $architectures; do
  echo
  echo "sm_$architecture"
  find "$work" -name "*_$architecture.cubin" ! -name "probe*" | sort | sed 's/\.cubin$//' |
    xargs python3 "$root/kernels/cuda/resources.py" table
done
