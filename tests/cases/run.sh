#!/usr/bin/env bash
# Runs the cases of ../shared/cases: small inputs that once went wrong. Each stands for a kind of fault that
# operators reported of other systems; its README there says what is right. Prints a table, and what a wrong
# case said.
#   TROUPE=build/deploy/troupe tests/cases/run.sh [--brief] [NAME…]
# NAME begins a case's name, such as 03. --brief: only those of a second or two. Exit status 1 if a case is
# wrong; 77 without ../shared/cases. A case that needs what this machine lacks is left out, with a line.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
TROUPE=$(realpath "${TROUPE:-$root/build/deploy/troupe}")
export TROUPE DEMO="$root/deploy/demo"
cases=${CASES:-$root/../shared/cases}
[ -d "$cases" ] || { echo "skipped: there is no $cases"; exit 77; }
[ -x "$TROUPE" ] || { echo "$TROUPE is no program; expected TROUPE=build/deploy/troupe"; exit 1; }
slow="02 05 06 07 08 13 17"   # more than two seconds; not with --brief
trap 'rmdir "$(cgroup memory)" "$(cgroup cpu)" 2>/dev/null' EXIT

brief= names=()
for word in "$@"; do
  if [ "$word" = --brief ]; then brief=1; else names+=("$word"); fi
done

wanted() {  # whether this case is to run
  local number=${1%%-*} name
  [ -n "$brief" ] && [[ " $slow " == *" $number "* ]] && return 1
  [ ${#names[@]} -eq 0 ] && return 0
  for name in "${names[@]}"; do [[ $1 == "$name"* ]] && return 0; done
  return 1
}

# Prints the folder to use for memory or cpu, or nothing. Cgroups of version 1 have a folder for each kind,
# those of version 2 one for all.
cgroup() {
  if [ -e "/sys/fs/cgroup/$1/tasks" ]; then echo "/sys/fs/cgroup/$1/troupe-case"
  elif grep -qw "$1" /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
    echo /sys/fs/cgroup/troupe-case
  fi
}

lacks() {  # prints what this machine lacks for the case, or nothing
  case $1 in
    02-* | 17-*)
      command -v redis-server >/dev/null || echo "redis-server" ;;
    05-* | 13-*)
      local kind=memory; [[ $1 == 13-* ]] && kind=cpu
      local group; group=$(cgroup $kind)
      if [ "$(id -u)" -ne 0 ]; then echo "root"
      elif [ -z "$group" ]; then echo "a cgroup of $kind"
      elif [[ $1 == 13-* && $group == /sys/fs/cgroup/troupe-case ]]; then echo "cgroups of version 1"
      elif ! mkdir -p "$group" 2>/dev/null; then echo "the right to make a cgroup"; fi ;;
    14-*)
      curl --version | grep -q HTTP2 || echo "curl with HTTP/2" ;;
  esac
}

# Case 13 only prints: with a quota of half the cores, the defaults have to give as few threads as settings
# for half the cores do.
threads_agree() { # its output
  local counts; counts=$(sed -n "s/^knobs '.*': \([0-9]*\) threads$/\1/p" <<<"$1" | sort -u | wc -l)
  [ "$counts" -eq 1 ] || { echo "WRONG: the threads differ: the quota is not looked at"; return 1; }
}

run() {  # runs a case; prints what it says
  local name=$1 kind=memory said status
  [[ $name == 13-* ]] && kind=cpu
  said=$(CG=$(cgroup $kind) timeout 120 bash "$cases/$name/run.sh" 2>&1 </dev/null); status=$?
  echo "$said"
  # A case that can print WRONG is judged by that: its last command fails where it should.
  grep -q WRONG <<<"$said" && return 1
  if grep -q WRONG "$cases/$name/run.sh"; then
    [ $status -lt 124 ] || return 1
  else
    [ $status -eq 0 ] || return 1
  fi
  if [[ $name == 13-* ]]; then threads_agree "$said"; fi
}

right=0 wrong=0 left=0 table=
for folder in "$cases"/*/; do
  name=$(basename "$folder")
  [ -e "$folder/run.sh" ] && wanted "$name" || continue
  missing=$(lacks "$name")
  if [ -n "$missing" ]; then
    table+="left out  $name (this machine lacks $missing)"$'\n'; left=$((left + 1)); continue
  fi
  begun=$SECONDS
  if said=$(run "$name"); then
    table+="right     $name ($((SECONDS - begun)) s)"$'\n'; right=$((right + 1))
  else
    table+="WRONG     $name ($((SECONDS - begun)) s)"$'\n'; wrong=$((wrong + 1))
    sed "s/^/$name: /" <<<"$said" | tail -20
  fi
done
printf '%s' "$table"
echo "$right right, $wrong wrong, $left left out"
[ $((right + wrong)) -gt 0 ] || exit 77
[ $wrong -eq 0 ] || exit 1
