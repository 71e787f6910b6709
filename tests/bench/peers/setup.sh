#!/bin/bash
# Installs the peers of `troupe-lab bench engine` into a folder and builds their drivers there:
#
#   tests/bench/peers/setup.sh FOLDER
#
# Downloads 1.3 GB: onnxruntime and llama.cpp from npm (binaries, and llama.cpp's source), OpenBLAS from
# Debian. The prebuilt llama.cpp has no BLAS. Its BLAS backend is compiled here against OpenBLAS and
# loaded with the prebuilt CPU kernels; on long prompts that is llama.cpp at its fastest. No weights are
# downloaded: make_model.mjs writes random ones.
set -euo pipefail
[ $# = 1 ] || { echo "usage: setup.sh FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
mkdir -p "$1/npm" "$1/models" "$1/blas"
folder=$(cd "$1" && pwd)

for program in node npm g++ git; do
  command -v $program >/dev/null || { echo "setup.sh needs $program, which is not installed" >&2; exit 1; }
done
blas=/usr/lib/$(uname -m)-linux-gnu/openblas-pthread
headers=/usr/include/$(uname -m)-linux-gnu/openblas-pthread
[ -f "$headers/cblas.h" ] || apt-get install -y -qq libopenblas-pthread-dev >/dev/null ||
  { echo "setup.sh needs OpenBLAS: apt-get install libopenblas-pthread-dev" >&2; exit 1; }

cd "$folder/npm"
[ -f package.json ] || echo '{"private": true}' >package.json
[ -d node_modules/onnxruntime-node ] && [ -d node_modules/@node-llama-cpp/linux-x64 ] ||
  npm install --no-audit --no-fund --ignore-scripts --omit=optional \
    onnxruntime-node@1.30.0 node-llama-cpp@3.22.1 @node-llama-cpp/linux-x64@3.22.1 >/dev/null
source=$folder/llama.cpp
[ -d "$source" ] || git clone -q node_modules/node-llama-cpp/llama/gitRelease.bundle "$source" 2>/dev/null

llama=$folder/npm/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64
base=("$llama"/libggml-base.so)
fma="$root/kernels/cpu/products/fma_rate.cc"
flags=(-O2 -std=c++20 -pthread -I"$root")
g++ "${flags[@]}" -shared -fPIC -DGGML_BACKEND_DL -DGGML_BACKEND_SHARED -DGGML_SHARED -DGGML_BACKEND_BUILD \
  -DGGML_BLAS_USE_OPENBLAS -I"$source/ggml/include" -I"$source/ggml/src" -I"$headers" \
  "$source/ggml/src/ggml-blas/ggml-blas.cpp" -o "$folder/blas/libggml-blas.so" \
  "${base[@]}" "$blas/libopenblas.so.0" -Wl,-rpath,"$blas:$llama"
ln -sf "$llama"/libggml-cpu-*.so "$folder/blas/"
g++ "${flags[@]}" -c "$fma" -o "$folder/fma_rate.o"
# llama_beams selects from the logits itself, so it is compiled for speed.
for driver in llama_peer llama_beams; do
  g++ "${flags[@]}" -O3 -march=native -ffast-math -I"$source/include" -I"$source/ggml/include" \
    "$here/$driver.cc" "$folder/fma_rate.o" -o "$folder/$driver" \
    "$llama"/libllama.v*.so "$llama"/libggml.v*.so "${base[@]}" -Wl,-rpath,"$llama"
done
g++ "${flags[@]}" "$here/fma_now.cc" "$fma" -o "$folder/fma_now"
echo "the peers are in $folder"
