#!/usr/bin/env bash
# Installs what a fresh Debian 12 lacks and builds. Used by quickstart.sh and test.sh; safe to run again.
#   deploy/build.sh [preset] [target...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
[ $# -gt 0 ] && shift

mapfile -t packages < deploy/packages.txt
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing ${#missing[@]} packages: ${missing[*]}"
  become=()
  [ "$(id -u)" -eq 0 ] || become=(sudo)
  "${become[@]}" apt-get update -qq
  # Debian starts the servers that it installs, now and at each boot. The tests start their own.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap '"${become[@]}" rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${become[@]}" install -m 755 /dev/stdin $policy
  fi
  DEBIAN_FRONTEND=noninteractive "${become[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  for server in etcd redis-server; do
    if [[ " ${missing[*]} " == *" $server"* ]]; then
      "${become[@]}" systemctl disable -q $server 2>/dev/null || true
    fi
  done
fi

cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" ${1:+--target "$@"}
