#!/usr/bin/env bash
# Makes the Debian package of a build and tests it in an empty root (deploy/container/bare-root.sh). Needs
# root.
#   deploy/package/check.sh build
set -euo pipefail
build=$(realpath "${1:?expected a build folder}")
cd "$(dirname "$0")/../.."
command -v dpkg-shlibdeps >/dev/null ||
  { echo "skipped: no dpkg-shlibdeps (apt-get install dpkg-dev)"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cpack --config "$build/CPackConfig.cmake" -G DEB -B "$folder" >"$folder/log" 2>&1 ||
  { cat "$folder/log"; exit 1; }
package=$(echo "$folder"/troupe_*.deb)
dpkg-deb -I "$package" | sed -n 's/^ \(Package\|Version\|Depends\|Recommends\|Installed-Size\):/\1:/p'
deploy/container/bare-root.sh "$package"
