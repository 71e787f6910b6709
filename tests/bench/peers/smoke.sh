#!/bin/bash
# Runs one round of `troupe-lab bench engine` beside every installed peer on the smallest shape; each peer
# must report a figure for each workload. TROUPE_LAB: the program; TROUPE_PEERS: the folder where setup.sh
# installed the peers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
peers=${TROUPE_PEERS:-${TMPDIR:-/tmp}/troupe-peers}
[ -x "$peers/llama_peer" ] ||
  {
    echo "skipped: no peers in $peers; $here/setup.sh FOLDER installs them; set TROUPE_PEERS=FOLDER" >&2
    exit 77
  }
report=$(mktemp)
trap 'rm -f "$report"' EXIT
"$TROUPE_LAB" bench engine --shape tiny --rounds 1 --against "$here" --peers "$peers" --all-peers \
  --json "$report"
python3 - "$report" <<'CHECK'
import collections, json, sys
report = json.load(open(sys.argv[1]))
works = collections.defaultdict(list)
for run in report["runs"]:
    if run["engine"] != "troupe":
        works[run["engine"]].append(run["workload"].split()[0])
assert not report["failures"], report["failures"]
assert len(works) == 6, sorted(works)
for engine, names in works.items():
    assert names == ["prefill", "prefill", "suffix", "rank"], (engine, names)
CHECK
