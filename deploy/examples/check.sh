#!/usr/bin/env bash
# Checks that the example configurations load, including the cluster file inside kubernetes/config.yaml. Each
# names a model that does not exist, so the program must fail for that reason only, after reading the file.
#   TROUPE=build/deploy/troupe deploy/examples/check.sh
set -euo pipefail
deploy=$(cd "$(dirname "$0")/.." && pwd)
troupe=${TROUPE:-$deploy/../build/deploy/troupe}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/examples"
cp "$deploy"/examples/*.yaml "$work/examples"
# Extracts the block's lines without their indent.
sed -n '/^  cluster.yaml: |$/,$ s/^    //p' "$deploy/kubernetes/config.yaml" >"$work/examples/kubernetes.yaml"

failed=0
expect_no_model() {  # what, command...
  local what=$1 said
  shift
  said=$("$@" --set node.data_dir="$work/data" 2>&1) || true
  if [[ $said == *"$work/none"*": no such folder"* ]]; then
    echo "$what: loads"
  else
    echo "$what: $said; expected only that there is no model" >&2
    failed=1
  fi
}
for file in "$work"/examples/*.yaml; do
  example=$(basename "$file")
  # With several models the list names their folders, so an option cannot replace them.
  one=(--set "model.directory=$work/none")
  if grep -q '^models:' "$file"; then
    one=()
    sed -i "s|directory: /srv/troupe|directory: $work/none|" "$file"
  fi
  if grep -q '^nodes:' "$file"; then
    for name in $(grep -oE '[{ ]name: [a-z-]+-[0-9]+' "$file" | sed 's/.*: //'); do
      expect_no_model "$example, node $name" "$troupe" node --config "$file" --name "$name" "${one[@]}"
    done
  else
    expect_no_model "$example" "$troupe" serve --config "$file" "${one[@]}"
  fi
done
exit $failed
