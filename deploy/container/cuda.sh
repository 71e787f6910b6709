#!/usr/bin/env bash
# Adds NVIDIA's repository of Debian 12 to an image, and for "build" installs the compiler and the headers
# that the CUDA backend needs. Used by the Dockerfile with --build-arg CUDA=VERSION; without a version it does
# nothing.
#   deploy/container/cuda.sh build|run [VERSION]      # such as 13-0
set -euo pipefail
what=${1:?expected build or run}
version=${2:-}
[ -n "$version" ] || exit 0
[[ $version =~ ^[0-9]+-[0-9]+$ ]] ||
  { echo "CUDA is \"$version\"; expected a version as in NVIDIA's package names, such as 13-0" >&2; exit 1; }
repository=https://developer.download.nvidia.com/compute/cuda/repos/debian12/$(uname -m | sed s/aarch64/sbsa/)
apt-get update -qq
apt-get install -y -qq --no-install-recommends ca-certificates curl
curl -fsSLo /tmp/keyring.deb "$repository/cuda-keyring_1.1-1_all.deb"
dpkg -i /tmp/keyring.deb
rm /tmp/keyring.deb
apt-get update -qq
[ "$what" = run ] && exit 0
apt-get install -y -qq --no-install-recommends \
  "cuda-nvcc-$version" "cuda-cudart-dev-$version" "libcublas-dev-$version"
