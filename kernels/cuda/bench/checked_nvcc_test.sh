#!/bin/bash
# Tests checked_nvcc.sh with a fake compiler that prints recorded output.
set -uo pipefail
checked=$(cd "$(dirname "$0")" && pwd)/checked_nvcc.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/nvcc" << 'END'
#!/bin/bash
cat "$(dirname "$0")/says" >&2
touch "$2"
exit "$(cat "$(dirname "$0")/status")"
END
chmod +x "$work/nvcc"
failed=0
expect() {  # case, status of the compiler, its output, expected status, whether there is an object
  local status=0 object=absent
  echo "$3" > "$work/says"
  echo "$2" > "$work/status"
  "$checked" "$work/nvcc" -o "$work/a.o" > /dev/null 2> "$work/errors" || status=$?
  [ ! -e "$work/a.o" ] || object=there
  if [ $status -ne "$4" ] || [ $object != "$5" ] || ! grep -qF "$3" "$work/errors"; then
    echo "FAILED: $1: ended with $status, object $object; expected $4, $5, and the compiler's output"
    failed=1
  fi
  rm -f "$work/a.o"
}
serialized="ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized \
due to non wgmma instructions reading accumulator registers of  a wgmma between start and end of the \
pipeline stage in the function 'attend_hopper_kernel'"
expect "a compiler without output" 0 "" 0 there
expect "registers and spills" 0 "ptxas info    : Used 168 registers, used 5 barriers" 0 there
expect "serialized products" 0 "$serialized" 1 absent
expect "a later number of the same kind" 0 "${serialized/C7514/C7510}" 1 absent
expect "an error of the compiler's own" 2 "error: expected a ;" 2 there
[ $failed -ne 0 ] || echo "checked_nvcc.sh fails only if products are serialized"
exit $failed
