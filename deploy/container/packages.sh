#!/usr/bin/env bash
# Prints the Debian packages that a program needs at run time, one per line: those of the libraries that it is
# linked with, and of those that it opens by name (UCX). Run it where the program's libraries are installed.
#   deploy/container/packages.sh build/deploy/troupe
set -euo pipefail
program=${1:?expected a program}

package_of() {  # package of a file, which may have two names since /usr was merged
  local file
  for file in "$1" "/usr$1" "${1#/usr}" "$(readlink -f "$1")"; do
    dpkg-query -S "$file" 2>/dev/null | cut -d: -f1 | sed -n 1p && return
  done
}
linked=$(ldd "$program")
if grep -q 'not found' <<<"$linked"; then
  echo "$program: $(grep 'not found' <<<"$linked" | head -3); expected all libraries to be installed" >&2
  exit 1
fi
{
  grep -oE '/[^ ]+\.so[^ ]*' <<<"$linked"
  # Libraries opened by name; those that this machine lacks (CUDA) are left out.
  grep -aoE 'lib[A-Za-z0-9_+-]+\.so\.[0-9]+' "$program" | sort -u | while read -r name; do
    grep -qF "$name" <<<"$linked" || ldconfig -p | awk -v name="$name" '$1 == name && !seen++ { print $NF }'
  done
} | while read -r file; do
  package=$(package_of "$file")
  [ -n "$package" ] && echo "$package" || echo "no package has $file" >&2
done | sort -u
