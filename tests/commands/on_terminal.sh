#!/usr/bin/env bash
# Runs a command at a terminal, and prints only its progress: each task with all its percentages.
set -eu
script -qec "$*" /dev/null </dev/null | tr '\r' '\n' | sed 's/\x1b\[K//g' | grep -E '^[^ ].* [0-9]+ %$' |
  awk '{ last = $(NF - 1); $NF = $(NF - 1) = ""
         if ($0 != what) { if (what) print what ":" said; what = $0; said = "" }
         said = said " " last }
       END { print what ":" said }' | sed 's/ *:/:/'
