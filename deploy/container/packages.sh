#!/usr/bin/env bash
# Prints the Debian packages that a program needs at run time, one per line: those of the libraries that it is
# linked with, and of those that it opens by name (UCX). Run it where the program's libraries are installed.
#   deploy/container/packages.sh build/deploy/troupe
set -euo pipefail
program=${1:?expected a program}

names_of() {  # a file may have two names since /usr was merged
  printf '%s\n' "$1" "/usr$1" "${1#/usr}" "$(readlink -f "$1")"
}
linked=$(ldd "$program")
if grep -q 'not found' <<<"$linked"; then
  echo "$program: $(grep 'not found' <<<"$linked" | head -3); expected all libraries to be installed" >&2
  exit 1
fi
files=$(
  grep -oE '/[^ ]+\.so[^ ]*' <<<"$linked"
  # Libraries opened by name; those that this machine lacks (CUDA) are left out.
  cached=$(ldconfig -p)
  grep -aoE 'lib[A-Za-z0-9_+-]+\.so\.[0-9]+' "$program" | sort -u | while read -r name; do
    grep -qF "$name" <<<"$linked" || awk -v name="$name" '$1 == name && !seen++ { print $NF }' <<<"$cached"
  done
)
# One query for all files: each reads the lists of all packages.
declare -A owner
while read -r line; do
  file=${line##*: }
  owner[$file]=${owner[$file]:-${line%%:*}}
done < <(for file in $files; do names_of "$file"; done | xargs dpkg-query -S 2>/dev/null || true)
for file in $files; do
  package=
  while read -r name; do package=${package:-${owner[$name]:-}}; done < <(names_of "$file")
  [ -n "$package" ] && echo "$package" || echo "no package has $file" >&2
done | sort -u
