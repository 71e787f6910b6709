#!/usr/bin/env bash
# Checks staged files before a commit: clang-format, lines over 110 columns, comments that open as a fragment.
# To run it at each commit: ln -s ../../deploy/pre-commit.sh .git/hooks/pre-commit
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
mapfile -t code < <(git diff --cached --name-only --diff-filter=ACMR -- '*.cc' '*.h' '*.cu' '*.cuh')
mapfile -t scripts < <(git diff --cached --name-only --diff-filter=ACMR -- '*.py' '*.sh')
status=0
if [ ${#code[@]} -gt 0 ]; then
  format=$(command -v clang-format-14 || command -v clang-format || true)
  if [ -n "$format" ]; then
    "$format" --dry-run -Werror "${code[@]}" || status=1
  else
    echo "skipped: clang-format 14 is not installed (apt-get install clang-format)"
  fi
fi
for file in "${code[@]}" "${scripts[@]}"; do
  awk -v file="$file" 'length($0) > 110 { print file ":" NR ": " length($0) " columns"; bad = 1 }
                       END { exit bad }' "$file" || status=1
  mark='//+'
  [[ $file =~ \.(py|sh)$ ]] && mark='#+'
  if grep -nE "^ *$mark (Of|What|Who|Whose|Whom|That|Those|Than|By|And|Nor|Such)\b" "$file" /dev/null; then
    echo "$file: expected comments that begin with a noun or a verb in the third person"
    status=1
  fi
done
exit $status
