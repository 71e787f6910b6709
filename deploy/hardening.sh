#!/usr/bin/env bash
# Was a program built with the guards of cmake/hardening.cmake? Ends with 1 where one is missing.
#   deploy/hardening.sh build/deploy/troupe
set -euo pipefail
program=${1:?expected a program}
failed=0
has() {  # what, whether
  echo "$1: $2"
  [ "$2" = yes ] || failed=1
}
found() { grep -qE -- "$1" <<<"$2" && echo yes || echo no; }
absent() { grep -qE -- "$1" <<<"$2" && echo no || echo yes; }

dynamic=$(readelf -dW "$program") headers=$(readelf -lW "$program") header=$(readelf -hW "$program")
symbols=$(readelf --dyn-syms -W "$program")
has "an address of its own at each start (PIE)" "$(found 'Type: +DYN' "$header")"
has "read-only after the start (RELRO)" "$(found GNU_RELRO "$headers")"
has "everything bound before the start (BIND_NOW)" "$(found '\((FLAGS|BIND_NOW)\).*(BIND_NOW|NOW)' "$dynamic")"
has "no code on the stack" "$(found 'GNU_STACK.* RW +0x' "$headers")"
has "no folders of its own for libraries (RUNPATH)" "$(absent 'R(UN)?PATH' "$dynamic")"
has "guarded stack frames" "$(found __stack_chk_fail "$symbols")"
has "calls that know their sizes (FORTIFY)" "$(found '__[a-z]+_chk@' "${symbols//__stack_chk_fail/}")"
# Large frames are touched page by page: or $0x0,(%rsp), once a page.
clash=$(objdump -d --no-show-raw-insn "$program" | grep -cE 'orq? +\$0x0,\(%rsp\)' || true)
has "stack frames that skip no guard page" "$([ "$(uname -m)" != x86_64 ] || [ "$clash" -gt 0 ] && echo yes || echo no)"
exit $failed
