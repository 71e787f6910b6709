#!/usr/bin/env bash
# Tests the Debian package under systemd: boots a bare Debian in a container (systemd-nspawn) and uses the
# unit as an operator would. The unit is up after the boot, runs as its own user, ranks and reloads. After a
# kill it restarts with all acknowledged writes. It stops cleanly, and disappears with the package. Needs
# root, systemd-nspawn, debootstrap and Debian's mirror; otherwise it names what is missing and exits with 77.
#   deploy/container/systemd.sh TROUPE.deb [ROOT]     # ROOT: a folder that keeps the bare system for reuse
set -euo pipefail
package=$(realpath "${1:?expected a Debian package of the program}")
skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "a container needs root"
command -v systemd-nspawn >/dev/null || skip "no systemd-nspawn (apt-get install systemd-container)"
base=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$base" ] || [ ! -e "$base/usr/lib/systemd/systemd" ]; then
  command -v debootstrap >/dev/null || skip "no debootstrap"
  base=${base:-$work/base}
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus "${DEBIAN:-bookworm}" "$base" \
    >/dev/null || skip "debootstrap cannot reach a mirror"
fi
root=$work/root
cp -a "$base" "$root"
cp "$package" "$root/troupe.deb"
cp /etc/resolv.conf "$root/etc/resolv.conf"
chroot "$root" sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends /troupe.deb' \
  >"$work/install" 2>&1 ||
  { cat "$work/install"; skip "the package's dependencies cannot be installed"; }
chroot "$root" setpriv --reuid troupe --regid troupe --clear-groups \
  troupe import --model /usr/share/troupe/demo/model --data-dir /var/lib/troupe/box \
  --data /usr/share/troupe/demo/world >/dev/null
chroot "$root" systemctl enable troupe 2>/dev/null

cat >"$root/trial.sh" <<'TRIAL'
server=127.0.0.1:8080
ask() { troupe rank --server $server --user "$1" --candidates camp-0001,camp-0002; }
fails() { echo "FAILED  $1"; journalctl -u troupe --no-pager | tail -20; exit 1; }
until_it_does() { for _ in $(seq 150); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done; return 1; }
holds() { local what=$1; shift; "$@" >/dev/null 2>&1 || fails "$what"; echo "ok      $what"; }
pid() { systemctl show -p MainPID --value troupe; }
owner() { [ "$(stat -c %U "/proc/$(pid)")" = troupe ]; }
put() {  # writes a user who was not imported
  local body='{"history":["camp-0003"]}'
  local head='PUT /v1/users/walt HTTP/1.1\r\nhost:\r\ncontent-length: %d\r\nconnection: close\r\n\r\n'
  exec 3<>/dev/tcp/127.0.0.1/8080
  printf "$head%s" ${#body} "$body" >&3
  head -1 <&3 | grep -q ' 200 '
}
reloaded() { journalctl -u troupe --no-pager | grep -q '"event":"reloaded"\|reloaded'; }
back() { until_it_does ask walt && [ "$(systemctl show -p NRestarts --value troupe)" = 1 ]; }
ended() {
  systemctl stop troupe && [ "$(systemctl show -p Result --value troupe)" = success ] &&
    [ "$(systemctl show -p ExecMainStatus --value troupe)" = 0 ]
}
gone() { dpkg -r troupe && ! systemctl cat troupe; }
holds "after the boot the unit ranks" until_it_does ask ana
holds "systemd reports the unit as active" systemctl is-active troupe
holds "the unit runs as its own user" owner
holds "a reload succeeds" systemctl reload troupe
holds "the reload is in the journal" until_it_does reloaded
holds "a user is written" put
kill -9 "$(pid)"
holds "after a kill the unit restarts once and knows that user" back
holds "the unit stops cleanly" ended
holds "the removed package has no unit" gone
booted=$(systemd-analyze --version >/dev/null 2>&1 && echo "booted in a container: $(systemd-detect-virt)")
echo "systemd $(systemctl --version | head -1 | cut -d' ' -f2), $booted"
TRIAL
cat >"$root/etc/systemd/system/trial.service" <<'UNIT'
[Unit]
After=troupe.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'bash /trial.sh >/trial.log 2>&1; echo $? >/trial.status; systemctl --no-block poweroff'
[Install]
WantedBy=multi-user.target
UNIT
chroot "$root" systemctl enable trial 2>/dev/null
timeout 300 systemd-nspawn --quiet --directory "$root" --register=no --keep-unit --private-network --boot \
  >"$work/console" 2>&1 || true
[ -s "$root/trial.status" ] || { tail -20 "$work/console"; skip "systemd does not boot in a container here"; }
cat "$root/trial.log"
exit "$(cat "$root/trial.status")"
