#!/usr/bin/env bash
# Installs the missing packages of the given lists of this folder on Debian 12, and prints their size first.
# Safe to run again: installed packages are left alone.
#   deploy/install.sh packages [packages-cluster] [packages-tests]
set -euo pipefail
cd "$(dirname "$0")"

missing=()
for list in "$@"; do
  while read -r package; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      missing+=("$package")
  done <"$list.txt"
done
[ ${#missing[@]} -gt 0 ] || exit 0

become=()
[ "$(id -u)" -eq 0 ] || become=(sudo)
echo "apt installs, as root${become:+ (sudo)}, ${#missing[@]} packages and their dependencies: ${missing[*]}"
"${become[@]}" apt-get update -qq
# Prints two lines of a dry run: "Need to get 210 MB of archives" and "After this operation, 1,021 MB …".
LC_ALL=C apt-get install --assume-no --no-install-recommends "${missing[@]}" 2>/dev/null |
  grep -E '^(Need to get|After this operation)' | cut -d. -f1 || true

# Debian starts installed servers now and at each boot. This is prevented, because the tests start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap '"${become[@]}" rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${become[@]}" install -m 755 /dev/stdin $policy
fi
DEBIAN_FRONTEND=noninteractive \
  "${become[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
for server in etcd redis-server haproxy nginx prometheus; do
  if [[ " ${missing[*]} " == *" $server"* ]]; then
    "${become[@]}" systemctl disable -q $server 2>/dev/null || true
  fi
done
