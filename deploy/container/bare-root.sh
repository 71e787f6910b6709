#!/usr/bin/env bash
# Starts the image's content in an empty root, without docker: Debian's base, the packages that packages.sh
# derives, the program and the demo model. Needs root. With --debootstrap the root comes from Debian's mirror;
# otherwise it is made of the files of this machine's packages, with their dependencies.
# With a Debian package instead of a program, the root has that package's dependencies and dpkg. The package
# is installed, its single node is started as its unit says and ranks, and the package is removed and purged
# completely.
#   deploy/container/bare-root.sh build/deploy/troupe|TROUPE.deb [--debootstrap]
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:?expected the program, or a package of it}")
skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "chroot needs root"
# Prints the package with this name, or one that provides it.
provider() {
  dpkg-query -s "$1" >/dev/null 2>&1 && echo "$1" && return
  dpkg-query -W -f '${Package}:${Provides}\n' | grep -E "[:, ]$1( |,|\$)" | cut -d: -f1 | sed -n 1p
}
case $program in
  *.deb)
    packages=$(dpkg-deb -f "$program" Depends | tr ',' '\n' | sed 's/[(|].*//' |
      while read -r name; do provider "$name"; done)
    packages+=" dpkg tar sed findutils grep gzip util-linux diffutils libc-bin base-passwd"
    ;;
  *) packages=$(deploy/container/packages.sh "$program") ;;
esac
root=$(mktemp -d)
chmod 755 "$root"  # readable by the user that the program runs as
box=
trap '[ -n "$box" ] && kill "$box" 2>/dev/null; rm -rf "$root"' EXIT

from_mirror() {
  command -v debootstrap >/dev/null || skip "no debootstrap"
  debootstrap --variant=minbase bookworm "$root" >/dev/null || skip "debootstrap cannot reach a mirror"
  chroot "$root" apt-get install -y -qq --no-install-recommends $packages >/dev/null
}
# Copies the files of the packages and their dependencies, and of a shell.
from_here() {
  local all link
  for link in bin sbin lib lib64; do  # merged /usr, as in Debian 12 and later
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
  # Records the packages as installed, for dpkg.
  mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/log" "$root/etc" "$root/tmp"
  for package in $all; do
    dpkg-query -s "$package" 2>/dev/null && echo
    cp /var/lib/dpkg/info/"$package"{,:*}.list "$root/var/lib/dpkg/info/" 2>/dev/null || true
  done >"$root/var/lib/dpkg/status" || true
  printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:x:0:\n' >"$root/etc/group"
  : >"$root/etc/shadow"
}
if [ "${2:-}" = --debootstrap ]; then from_mirror; else from_here; fi

install -d "$root/tmp" "$root/dev" "$root/var/lib"
[ -e "$root/dev/null" ] || mknod -m 666 "$root/dev/null" c 1 3
inside() { chroot "$root" "$@"; }
all_files() {
  (cd "$root" &&
    find . -path ./tmp -prune -o -path ./proc -prune -o -path ./var/lib/dpkg -prune -o -print | sort)
}
before=$(all_files)
if [[ $program == *.deb ]]; then
  cp "$program" "$root/tmp/troupe.deb"
  inside dpkg -i /tmp/troupe.deb
  troupe=/usr/bin/troupe demo=/usr/share/troupe/demo data=/var/lib/troupe/box
  as="setpriv --reuid troupe --regid troupe --clear-groups"
  # The user and the command of the unit, as systemd would use them.
  grep -q '^User=troupe' "$root/usr/lib/systemd/system/troupe.service"
  words=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/troupe.service")
  programs=(troupe) pages=(troupe-serve)
  if [ -e "$root/usr/bin/troupe-lab" ]; then programs+=(troupe-lab) pages+=(troupe-lab-sim); fi
  for page in "${pages[@]}"; do inside test -s "/usr/share/man/man1/$page.1.gz"; done
  for name in "${programs[@]}"; do
    inside "$name" --version
    inside test -s "/usr/share/bash-completion/completions/$name"
  done
else
  install -D -m 755 "$program" "$root/usr/local/bin/troupe"
  install -d "$root/var/lib/troupe"
  cp -r deploy/demo "$root/demo"
  troupe=/usr/local/bin/troupe demo=/demo data=/var/lib/troupe as=
  words="$troupe serve --model $demo/model --data-dir $data"
fi
install -d -m 777 "$root/tmp"
inside $troupe --version
inside $as $troupe import --model $demo/model --data-dir $data --data $demo/world
chroot "$root" $as $words --port 0 --port-file /tmp/port --set pool.precompute_items=false \
  >"$root/tmp/out" 2>&1 &
box=$!
for _ in $(seq 100); do [ -s "$root/tmp/port" ] && break; sleep 0.1; done
[ -s "$root/tmp/port" ] || { cat "$root/tmp/out"; echo "the node does not start"; exit 1; }
answer=$(inside $troupe rank --server "127.0.0.1:$(cat "$root/tmp/port")" --user ana \
  --candidates camp-0001,camp-0002) || true
kill "$box"
wait "$box" 2>/dev/null || true
box=
echo "$answer"
grep -q camp-0001 <<<"$answer" || { echo "it does not rank"; exit 1; }
if [[ $program == *.deb ]]; then
  inside dpkg -r troupe
  [ -d "$root/$data" ] || { echo "removing the package deleted its data; only purge may do that"; exit 1; }
  [ -z "$(ls "$root"/usr/bin/troupe* 2>/dev/null)" ] || { echo "the removed package left a program"; exit 1; }
  inside dpkg -P troupe
  expected='^./etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|^./etc/.pwd.lock$|^./var/log/'
  left=$(comm -13 <(echo "$before") <(all_files) | grep -vE "$expected" || true)
  [ -z "$left" ] || { printf 'left behind:\n%s\n' "$left"; exit 1; }
  echo "installed, started, removed and purged"
fi
echo "starts and ranks in a root with $(wc -w <<<"$packages") packages and their dependencies: $packages" |
  tr '\n' ' '
echo
