#!/usr/bin/env bash
# Starts the image's content where nothing else is, without docker: a root of its own with Debian's base, the packages that
# packages.sh derives, the program and the demo model. Needs root. With --debootstrap the root comes from Debian's mirror;
# else it is made of the files of this machine's packages, those derived and all that they depend on.
#   deploy/container/bare-root.sh build/deploy/troupe [--debootstrap]
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:?expected the program}")
skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "a root of its own needs root"
packages=$(deploy/container/packages.sh "$program")
root=$(mktemp -d)
box=
trap '[ -n "$box" ] && kill "$box" 2>/dev/null; rm -rf "$root"' EXIT

from_mirror() {
  command -v debootstrap >/dev/null || skip "no debootstrap"
  debootstrap --variant=minbase bookworm "$root" >/dev/null || skip "debootstrap cannot reach a mirror"
  chroot "$root" apt-get install -y -qq --no-install-recommends $packages >/dev/null
}
# What a package and its dependencies bring, and a shell.
from_here() {
  local all link
  for link in bin sbin lib lib64; do  # as Debian has had it since 12
    mkdir -p "$root/usr/$link"
    ln -s "usr/$link" "$root/$link"
  done
  all=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
    --no-enhances $packages base-files dash coreutils 2>/dev/null | grep -E '^[a-z0-9]' | sort -u)
  for package in $all; do dpkg-query -L "$package" 2>/dev/null || true; done | sort -u |
    grep -vE '^/(usr/share/(doc|man|locale|info)|var/lib/dpkg)' |
    while read -r file; do if [ -L "$file" ] || [ -f "$file" ]; then echo "$file"; fi; done |
    tar -C / -cf - --no-recursion -T - 2>/dev/null | tar -C "$root" -xf - --keep-directory-symlink
  cp /etc/ld.so.conf "$root/etc/" && cp -r /etc/ld.so.conf.d "$root/etc/"
  ldconfig -r "$root"
}
if [ "${2:-}" = --debootstrap ]; then from_mirror; else from_here; fi

install -D -m 755 "$program" "$root/usr/local/bin/troupe"
install -d "$root/tmp" "$root/dev" "$root/var/lib/troupe"
cp -r deploy/demo "$root/demo"
inside() { chroot "$root" "$@"; }
inside /usr/local/bin/troupe --version
inside /usr/local/bin/troupe import --model /demo/model --data-dir /var/lib/troupe --data /demo/world
chroot "$root" /usr/local/bin/troupe serve --model /demo/model --data-dir /var/lib/troupe --port 0 --port-file /tmp/port \
  --set pool.precompute_items=false >"$root/tmp/out" 2>&1 &
box=$!
for _ in $(seq 100); do [ -s "$root/tmp/port" ] && break; sleep 0.1; done
[ -s "$root/tmp/port" ] || { cat "$root/tmp/out"; echo "the box does not start"; exit 1; }
answer=$(inside /usr/local/bin/troupe rank --server "127.0.0.1:$(cat "$root/tmp/port")" --user ana --candidates camp-0001,camp-0002) || true
kill "$box"
wait "$box" 2>/dev/null || true
box=
echo "$answer"
grep -q camp-0001 <<<"$answer" || { echo "it does not rank"; exit 1; }
echo "starts, and ranks, in a root with $(wc -w <<<"$packages") packages and what they need: $packages" | tr '\n' ' '
echo
