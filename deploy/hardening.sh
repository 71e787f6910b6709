#!/usr/bin/env bash
# Checks that a program was built with the guards of cmake/hardening.cmake. Exits with 1 if one is missing.
#   deploy/hardening.sh build/deploy/troupe
set -euo pipefail
program=${1:?expected a program}
failed=0
has() {  # name of the guard, yes or no
  echo "$1: $2"
  [ "$2" = yes ] || failed=1
}
found() { grep -qE -- "$1" <<<"$2" && echo yes || echo no; }
absent() { grep -qE -- "$1" <<<"$2" && echo no || echo yes; }

dynamic=$(readelf -dW "$program") headers=$(readelf -lW "$program") header=$(readelf -hW "$program")
symbols=$(readelf --dyn-syms -W "$program")
has "random load address (PIE)" "$(found 'Type: +DYN' "$header")"
has "relocations read-only after the start (RELRO)" "$(found GNU_RELRO "$headers")"
has "all symbols bound at the start (BIND_NOW)" "$(found '\((FLAGS|BIND_NOW)\).*(BIND_NOW|NOW)' "$dynamic")"
has "stack not executable" "$(found 'GNU_STACK.* RW +0x' "$headers")"
has "no library search path of its own (RUNPATH)" "$(absent 'R(UN)?PATH' "$dynamic")"
has "guarded stack frames" "$(found __stack_chk_fail "$symbols")"
has "calls with known buffer sizes (FORTIFY)" "$(found '__[a-z]+_chk@' "${symbols//__stack_chk_fail/}")"
# Large frames are touched page by page, with `or $0x0,(%rsp)` once per page.
clash=$(objdump -d --no-show-raw-insn "$program" | grep -cE 'orq? +\$0x0,\(%rsp\)' || true)
has "stack frames that skip no guard page" \
  "$([ "$(uname -m)" != x86_64 ] || [ "$clash" -gt 0 ] && echo yes || echo no)"
exit $failed
