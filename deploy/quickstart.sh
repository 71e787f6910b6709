#!/usr/bin/env bash
# Goes from a fresh Debian 12 to ranked items: installs packages, builds, imports the demo world, starts a
# single node, ranks twice for several users, restarts the node on the same folder, and stops it. Safe to run
# again. Builds without CUDA: a `troupe` that deploy/test.sh built with CUDA in build/ is replaced.
#   deploy/quickstart.sh [data folder]
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:-quickstart-data}
troupe=build/deploy/troupe
demo=deploy/demo

if [ ! -x $troupe ]; then
  cat <<END
Installs missing packages (apt, as root), compiles the program troupe into build/, and starts it on the demo
world. Everything except the packages stays below this folder. Compiling takes about nine minutes of one
core, shared by this machine's $(nproc), up to 2 GB of memory per core, and 1.5 GB of disk. CUDA, tests and
the program troupe-lab (simulation, planning, benchmarks) are not built; deploy/test.sh builds those.
END
fi
deploy/build.sh release troupe

server=
stop() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
  fi
}
trap stop EXIT

start() {
  rm -f "$data/port"
  "$troupe" serve --model $demo/model --data-dir "$data" --port 0 --port-file "$data/port" \
    --set node.log_file="$data/troupe.log" &
  server=$!
  until [ -s "$data/port" ]; do pause; done
  address=127.0.0.1:$(cat "$data/port")
  until "$troupe" status --server "$address" --json - 2>/dev/null | grep -qE '"(done|full)"'; do pause; done
}
pause() {  # waits a moment, or exits if the server has ended
  kill -0 "$server" 2>/dev/null || { echo "the server ended: see above, and $data/troupe.log" >&2; exit 1; }
  sleep 0.1
}
metric() { curl -s "http://$address/metrics" | awk -v name="$1" '$1 == name { print $2 }'; }

mkdir -p "$data"
echo
"$troupe" import --model $demo/model --data-dir "$data" --data $demo/world
start
"$troupe" rank --server "$address" --requests $demo/world/requests.jsonl --data $demo/world --users 4 \
  --rounds 2
echo
echo "The same users by their own history (policy user): the second visit reuses what the first one computed."
"$troupe" rank --server "$address" --requests $demo/world/requests.jsonl --users 4 --rounds 2 --policy user \
  --costs-only
stop

echo
echo "After a restart on the same folder:"
start
echo "item blocks taken from the store: $(metric troupe_item_blocks_loaded_total)," \
  "computed again: $(metric troupe_item_blocks_precomputed_total)"
stop

candidates=$(head -c 400 $demo/world/requests.jsonl | grep -oE '[a-z]+-[0-9]{4}' | head -4 | paste -sd,)
cat <<END

To continue by hand:
  $troupe serve --model $demo/model --data-dir $data &
  $troupe rank --user ana --candidates $candidates
  $troupe status            # or open http://127.0.0.1:8080 in a browser
  deploy/build.sh release troupe-lab   # builds build/deploy/troupe-lab, which simulates, plans and measures
END
