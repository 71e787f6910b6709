#!/usr/bin/env bash
# Makes common mistakes (commands, requests, files) against the demo world and prints each answer. An answer
# must say what was wrong, where, and what was expected. A mistake that would silently give wrong results must
# be refused. Exit status 1 if an answer does not say all this.
#   TROUPE=build/deploy/troupe tests/server/http_errors.sh [part of a case's name]
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
troupe=${TROUPE:-$root/build/deploy/troupe}
only=${1:-}
demo=$root/deploy/demo
work=$(mktemp -d)
node=
trap '[ -n "$node" ] && kill "$node" 2>/dev/null; rm -rf "$work"' EXIT
model=$demo/model
failed=0 rows=0

judge() {  # case, answer, patterns...
  local row=$1 answer=$2 missing=
  shift 2
  rows=$((rows + 1))
  for pattern in "$@"; do
    grep -qE -- "$pattern" <<<"$answer" || missing+="    lacks: $pattern"$'\n'
  done
  if [ -z "$missing" ]; then
    echo "ok      $row"
  else
    echo "FAILED  $row"
    printf '%s' "$missing"
    failed=1
  fi
  sed 's/^/          | /' <<<"$answer" | cut -c1-400
}

# Arguments: case, what, where, expected, command... The command must fail, and its output must match all
# three.
refused() {
  local row=$1 what=$2 where=$3 expected=$4 answer status
  shift 4
  [[ $row == *$only* ]] || return 0
  answer=$(timeout 60 "$@" 2>&1)
  status=$?
  [ $status -ne 0 ] && [ $status -ne 124 ] || answer+=$'\n'"(ended with $status, expected a failure)"
  judge "$row" "$answer"$'\n'"(status $status)" "$what" "$where" "$expected" '\(status [1-9]'
}

# Arguments: case, HTTP status, what, where, expected, arguments of curl...
answered() {
  local row=$1 status=$2 what=$3 where=$4 expected=$5 answer
  shift 5
  [[ $row == *$only* ]] || return 0
  answer=$(curl -s -m 20 -w '\n(HTTP %{http_code})' "$@")
  judge "$row" "$answer" "\\(HTTP $status\\)" "$what" "$where" "$expected"
}

start() {  # data folder, arguments...: returns when the node answers; its port is in $port
  local data=$1
  shift
  rm -f "$work/port"
  "$troupe" serve --model "$model" --data-dir "$data" --port 0 --port-file "$work/port" \
    --set node.log_file="$work/log" "$@" >"$work/out" 2>&1 &
  node=$!
  until [ -s "$work/port" ]; do
    kill -0 "$node" 2>/dev/null || { cat "$work/out" >&2; return 1; }
    sleep 0.05
  done
  port=$(cat "$work/port")
  at=http://127.0.0.1:$port
}
stop() {
  [ -z "$node" ] && return
  kill "$node" 2>/dev/null
  wait "$node" 2>/dev/null
  node=
}
ready_within() {  # seconds
  for _ in $(seq $(($1 * 10))); do
    [ "$(curl -s -o /dev/null -w '%{http_code}' "$at/v2/health/ready")" = 200 ] && return 0
    sleep 0.1
  done
  return 1
}
import=("$troupe" import --model "$model" --data-dir)
items_of() { "${import[@]}" "$1" --data "$2" "${@:3}"; }

data=$work/data
world=$demo/world
items_of "$data" "$world" >"$work/imported" || { cat "$work/imported"; exit 1; }

echo "== mistakes that would silently give wrong results"
judge data-folder-for-all "the data folder has mode $(stat -c %a "$data")" 'mode 700$'
other=$work/other-model
cp -r "$model" "$other"
sed -i 's/"<a_0>"/"<swap>"/; s/"<a_1>"/"<a_0>"/; s/"<swap>"/"<a_1>"/' "$other/vocab.json"
retrained=$work/retrained
cp -r "$model" "$retrained"
sed -i 's/"rope_theta": *[0-9.]*/"rope_theta": 20000.0/' "$retrained/config.json"
prompted=$work/prompt.json
sed 's/"<instr_3>"/"<instr_2>"/' "$model/prompt.json" >"$prompted"

refused other-vocabulary 'another vocabulary' "$data" 'expected model .*--replace' \
  "$troupe" serve --model "$other" --data-dir "$data" --port 0
refused other-model 'another model' "$data" 'expected model .*--adopt' \
  "$troupe" serve --model "$retrained" --data-dir "$data" --port 0
refused other-prompt 'another prompt form' "$data" 'expected .*--adopt' \
  "$troupe" serve --model "$model" --prompt "$prompted" --data-dir "$data" --port 0
refused import-for-other-model 'another vocabulary' "$data" '--replace' \
  "$troupe" import --model "$other" --data-dir "$data" --data "$world"
refused adopt-other-vocabulary 'another vocabulary' "$data" 'Nothing was changed' \
  "$troupe" import --model "$other" --data-dir "$data" --adopt

delisted=$work/delisted
mkdir "$delisted"
grep -v '"camp-0012"' "$world/items.jsonl" >"$delisted/items.jsonl"
cp "$world/users.jsonl" "$delisted"
fresh=$work/fresh
refused delisted-item 'item "camp-0012" is not in the catalog' ' users.jsonl:[0-9]+: history\[[0-9]+\]' \
  'expected items of the catalog, or --skip-unknown .*Nothing was imported' \
  "${import[@]}" "$fresh" --data "$delisted"
count() { items_of "$1" "$delisted" --skip-unknown "${@:2}" 2>&1; }
judge skip-unknown "$(count "$fresh")" 'catalog c1 has 1599 items' 'left out [0-9]+ events of 1 item ' \
  '"camp-0012" \([0-9]+ times\)'
judge replace "$(count "$data" --replace)" 'has 1599 items' '1 items of the former catalog were removed'
items_of "$data" "$world" >/dev/null

twice=$work/twice
mkdir "$twice"
{ head -3 "$world/items.jsonl"; head -1 "$world/items.jsonl"; } >"$twice/items.jsonl"
refused item-twice 'item "camp-0000" is on line 1 already' ' items.jsonl:4' 'expected each item once' \
  "${import[@]}" "$work/none" --data "$twice"
head -3 "$world/items.jsonl" >"$twice/items.jsonl"
{ head -1 "$world/users.jsonl"; head -1 "$world/users.jsonl"; } >"$twice/users.jsonl"
refused user-twice 'user "[a-z]+" is on line 1 already' ' users.jsonl:2' 'expected each user once' \
  "${import[@]}" "$work/none" --data "$twice"
generator=$work/generator
mkdir "$generator"
head -4 "$world/items.jsonl" | sed 's/"identifier":"[^"]*"/"identifier":"<a_1>"/' >"$generator/items.jsonl"
judge generator-model "$(items_of "$work/shared" "$generator" 2>&1)" \
  'warning: 4 of 4 items share their identifier' \
  'expected a token <item_'

start "$work/mistyped" || exit 1
sleep 1
answered mistyped-data-dir 503 'the catalog has no items' 'router' '"expected":' "$at/v2/health/ready"
judge mistyped-data-dir-log "$(grep catalog_empty "$work/log")" 'catalog_empty' "$work/mistyped" 'expected'
stop

start "$work/with-redis" --set features.store=redis://127.0.0.1:1 || exit 1
sleep 2.5
answered redis-away 503 'the shared feature store is away' 'router@1 is not ready' '"expected":' \
  "$at/v2/health/ready"
stop

# A worker that cannot reach any router.
if command -v etcd >/dev/null; then
  read -r etcd_port node_port < <(python3 -c 'import socket; s = [socket.socket() for _ in range(2)]
for one in s: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in s))')
  etcd --data-dir "$work/etcd" --listen-client-urls "http://127.0.0.1:$etcd_port" \
    --advertise-client-urls "http://127.0.0.1:$etcd_port" --listen-peer-urls http://127.0.0.1:0 \
    --initial-advertise-peer-urls http://127.0.0.1:0 --initial-cluster default=http://127.0.0.1:0 \
    >"$work/etcd.log" 2>&1 &
  etcd=$!
  cat >"$work/cluster.yaml" <<END
cluster: {coordination: "http://127.0.0.1:$etcd_port"}
model: {directory: "$model"}
nodes:
  - {node: 1, name: front, host: 127.0.0.1, port: 1, roles: [router, cache_meta]}
  - {node: 2, name: lonely, host: 127.0.0.1, port: $node_port, roles: [worker],
     settings: {node: {data_dir: "$work/lonely", log_file: "$work/log"}, http: {port: 0}}}
END
  until curl -s "http://127.0.0.1:$etcd_port/health" | grep -q true; do
    kill -0 $etcd || break
    sleep 0.1
  done
  rm -f "$work/port"
  "$troupe" node --config "$work/cluster.yaml" --name lonely --port-file "$work/port" >"$work/out" 2>&1 &
  node=$!
  for _ in $(seq 300); do [ -s "$work/port" ] && break; kill -0 $node || break; sleep 0.1; done
  cat "$work/out"  # its output, in case it ended
  answered worker-alone 503 'no router is connected out of 1' 'peer_away and join_refused in the logs' \
    '"expected":' \
    "http://127.0.0.1:$(cat "$work/port")/v2/health/ready"
  stop
  kill $etcd
  wait $etcd 2>/dev/null
else
  echo "skipped: worker-alone needs etcd"
fi

start "$data" --set router.requests_in_flight_max=1 || exit 1
ready_within 30 || { echo "the node is not ready:"; curl -s "$at/v2/health/ready"; exit 1; }
answered put-nothing 400 'missing_field' 'history or tokens' 'item ids' -X PUT -d '{}' "$at/v1/users/bruno"
kill -HUP "$node"
sleep 0.5
answered sighup 200 ready ready true "$at/v2/health/ready"
judge sighup-log "$(grep '"reloaded"' "$work/log")" 'log_level' 'certificates' 'next start'

echo "== commands"
refused unknown-command 'no command "serv"' troupe 'expected one of serve, node.*Did you mean serve' \
  "$troupe" serv
refused unknown-subcommand 'no command "captur"' troupe 'expected one of .*capture' "$troupe" trace captur
refused moved-command 'troupe bench' troupe 'is now .troupe-lab bench' "$troupe" bench rank
answer=$("$troupe" rank --server "http://127.0.0.1:$port/" --user ana --candidates camp-0001 2>&1)
judge server-with-http "$answer" 'camp-0001' 'tokens'
refused server-with-https 'https://127' 'version number|packet|handshake|protocol|stream' \
  'expected a running troupe server' \
  "$troupe" rank --server "https://127.0.0.1:$port" --user ana --candidates camp-0001
refused server-nowhere 'not found|refused|no such|resolution' 'nosuch.invalid' 'expected host:port' \
  "$troupe" rank --server nosuch.invalid:80 --user ana --candidates camp-0001
refused port-80a '"80a"' '--port' 'expected a whole number from 0 to 65535' \
  "$troupe" serve --model "$model" --data-dir "$work/p" --port 80a
refused address-nosuch 'neither an IP address nor a name' 'http.address' \
  'expected an address of this machine' \
  "$troupe" serve --model "$model" --data-dir "$work/a" --address nosuch.invalid --port 0
refused address-with-port 'neither an IP address nor a name' 'http.address' \
  'the port is a setting of its own' \
  "$troupe" serve --model "$model" --data-dir "$work/a" --address 127.0.0.1:9 --port 0
refused cluster-file "cluster's file" 'four-nodes.yaml:[0-9]+' 'troupe node --config' \
  "$troupe" serve --config "$root/deploy/examples/four-nodes.yaml"
plain=$work/plain-model
cp -r "$model" "$plain"
rm "$plain/prompt.json" "$plain/vocab.json"
refused no-prompt 'default prompt form does not fit' "$plain/prompt.json" 'expected .*--prompt' \
  "$troupe" serve --model "$plain" --data-dir "$work/q" --port 0
refused no-prompt-at-import 'default prompt form does not fit' "$plain/prompt.json" 'expected .*--prompt' \
  "$troupe" import --model "$plain" --data-dir "$work/q" --data "$world"
refused hub-name 'no such folder' 'Qwen/Qwen3-0.6B' \
  'expected a model directory on this machine.*not downloaded' \
  "$troupe" serve --model Qwen/Qwen3-0.6B --data-dir "$work/h" --port 0
answer=$("$troupe" rank --server "127.0.0.1:$port" --user ana --candidates 'camp-0002, camp-0003' 2>&1)
judge blank-in-list "$answer" 'camp-0002' 'camp-0003'
refused no-data 'no catalog' "$work" 'expected items.jsonl or items.tsv' \
  "${import[@]}" "$work/none" --data "$work"
refused no-data-option '--data is missing' '--data' 'expected a folder with a catalog' \
  "$troupe" import --model "$model" --data-dir "$work/none"

echo "== requests"
answered item-without-identifier 400 'missing_field' '"where":"identifier"' 'row' \
  -X PUT -d '{"tokens":[1]}' "$at/v1/items/new"
answered line-of-items-jsonl 400 'id_mismatch' '"where":"body"' 'the id in the path' \
  -X PUT -d "$(head -1 "$world/items.jsonl")" "$at/v1/items/new"
answered item-with-names 422 'not in the model.s vocabulary' 'identifier' 'a word of vocab.json' \
  -X PUT -d '{"tokens":["<a_8>"],"identifier":"item_1"}' "$at/v1/items/new"
answered event-without-item 400 'missing_field' 'events\[0\].item' 'an item' \
  -d '{"events":[{"id":"e1"}]}' "$at/v1/users/ana/events"
answered events-as-history 400 'unknown_field' '"where":"history"' 'one of events' \
  -d '{"history":["camp-0001"]}' "$at/v1/users/ana/events"
answered event-of-nothing 422 'item \\"nosuch\\" is not in the catalog' 'events\[0\].item' 'put before' \
  -d '{"events":[{"item":"nosuch"}]}' "$at/v1/users/ana/events"
answered event-with-time 422 'takes no feature' 'events\[0\].timestamp' 'none, as the model takes none' \
  -d '{"events":[{"item":"camp-0001","timestamp":5}]}' "$at/v1/users/ana/events"
answered get-nobody 404 'no such user' '"where":"user"' 'put before' "$at/v1/users/nobody"
answered version-without-quotes 400 'bad_condition' 'if-match' 'in quotes' \
  -X PUT -H 'if-match: 7' -d '{"history":[]}' "$at/v1/users/ana"
answered version-of-before 412 'version [0-9]+ is stored' 'if-match' 'read it again' \
  -X PUT -H 'if-match: "999999"' -d '{"history":[]}' "$at/v1/users/ana"
answered all-candidates-unknown 404 'unknown items: 1 of 1' 'candidates\[0\]' 'at least one item' \
  -d '{"user":"ana","candidates":["nosuch"],"unknown":"skip"}' "$at/v1/rank"
answered unknown-as-number 400 'bad_unknown' '"where":"unknown"' 'refuse or skip' \
  -d '{"user":"ana","candidates":["camp-0001"],"unknown":"drop"}' "$at/v1/rank"
answered lines-as-list 200 '"line":1,"status":400' 'wrong_type|malformed' '"failed":1' \
  -d '[{"user":"ana"}]' "$at/v1/users"
answered lines-without-user 200 'empty_user' '"where":"user"' 'an id' -d '{"history":[]}' "$at/v1/users"
answered unknown-item-in-history 422 'item \\"nosuch\\" is not in the catalog' 'history\[1\]' 'put before' \
  -X PUT -d '{"history":["camp-0001","nosuch"]}' "$at/v1/users/ana"
many=$(printf '"camp-%04d",' $(seq 0 1000))
answered too-many-candidates 413 'more than 1000' '"where":"candidates"' 'router.candidates_max' \
  -d "{\"user\":\"ana\",\"candidates\":[${many%,}]}" "$at/v1/rank"
echo '{"user":"ana","candidates":["camp-0001"]}' | gzip >"$work/body.gz"
answered gzip-body 415 'compressed' '"where":"(body|content-encoding)"' 'plain' \
  -H 'content-encoding: gzip' --data-binary "@$work/body.gz" "$at/v1/rank"
answered misspelt-field 400 'no such field' '"where":"candidate"' 'one of user, candidates' \
  -d '{"user":"ana","candidate":["camp-0001"]}' "$at/v1/rank"
answered tenant-in-body 400 'the body names a tenant' '"where":"tenant"' 'the header x-troupe-tenant' \
  -d '{"user":"ana","candidates":["camp-0001"],"tenant":"x"}' "$at/v1/rank"
answered unknown-candidate 404 'item \\"nosuch\\" is not in the catalog' 'candidates\[0\]' \
  'items of the catalog' \
  -d '{"user":"ana","candidates":["nosuch"]}' "$at/v1/rank"
answered unknown-user 404 'user \\"nobody\\" has no profile' '"where":"user"' 'put or imported' \
  -d '{"user":"nobody","candidates":["camp-0001"]}' "$at/v1/rank"
answered items-of-a-ranker 422 'ranks candidates' '"where":"model"' '/v1/rank, or a model whose prompt form' \
  -d '{"user":"ana"}' "$at/v1/generate"

# Sends more requests at once than are admitted; prints one of the refusals.
crowd() {
  local pids=() i
  for i in $(seq 40); do
    curl -s -m 20 -i -d "$(head -1 "$world/requests.jsonl" | sed -E 's/,"true_item":"[^"]*"//')" \
      "$at/v1/rank" >"$work/crowd.$i" &
    pids+=($!)
  done
  wait "${pids[@]}"
  grep -lE '^HTTP/1.1 503' "$work"/crowd.* | head -1 | xargs -r cat
}
judge retry-after "$(crowd)" '[Rr]etry-[Aa]fter: [0-9]' '"overloaded"' 'in flight' 'a retry after'
stop

echo "== a server with TLS and keys"
"$troupe" certs "$work/certs" --node localhost >/dev/null
"$troupe" keys add "$work/keys" --tenant acme --rate 0.01 >"$work/key" 2>/dev/null
refused keys-revoke-nobody 'no key 0123' "$work/keys" 'an id of troupe keys list' \
  "$troupe" keys revoke "$work/keys" 0123
refused one-of-certificate-and-key 'only one of http.tls_certificate' 'http.tls_key' 'both, or neither' \
  "$troupe" serve --model "$model" --data-dir "$data" --port 0 \
  --set http.tls_key="$work/certs/localhost.key"
refused key-of-another 'belong to the certificate|not the certificate' 'certificate' 'matching pair|PEM' \
  "$troupe" serve --model "$model" --data-dir "$data" --port 0 \
  --set http.tls_certificate="$work/certs/localhost.pem" --set http.tls_key="$work/certs/ca.key"
echo '{"id":1}' >"$work/bad-keys"
refused keys-damaged 'id is not known' "$work/bad-keys:1" 'troupe keys add' \
  "$troupe" serve --model "$model" --data-dir "$data" --port 0 --set http.api_keys="$work/bad-keys"
start "$data" --set http.tls_certificate="$work/certs/localhost.pem" \
  --set http.tls_key="$work/certs/localhost.key" \
  --set http.api_keys="$work/keys" || exit 1
at=https://localhost:$port
answered plain-to-tls 400 'requires TLS' '"where":"connection"' 'https://' "http://localhost:$port/v1/models"
tls=(--cacert "$work/certs/ca.pem")
answered no-key 401 'no_key' '"where":"authorization"' 'troupe keys add' "${tls[@]}" "$at/v1/models"
answered tenant-without-key 401 'no_key' '"where":"authorization"' 'troupe keys add' "${tls[@]}" \
  -H 'x-troupe-tenant: acme' "$at/v1/models"
answered wrong-key 401 'bad_key' '"where":"authorization"' 'troupe keys add' "${tls[@]}" \
  -H 'authorization: Bearer tk-x' "$at/v1/models"
answered tenant-of-another 403 'not_your_tenant' 'x-troupe-tenant' 'own tenant, or no header' "${tls[@]}" \
  -H "authorization: Bearer $(cat "$work/key")" -H 'x-troupe-tenant: b' "$at/v1/models"
answered too-often 429 'rate_limited' '"where":"tenant"' 'at most 0.01 a second' "${tls[@]}" \
  -H "authorization: Bearer $(cat "$work/key")" "$at/v1/models" -o /dev/null --next -s \
  -w '\n(HTTP %{http_code})' "${tls[@]}" \
  -H "authorization: Bearer $(cat "$work/key")" "$at/v1/models"
refused tls-stranger 'certificate verify failed' 'https://localhost' 'a trusted authority' \
  "$troupe" status --server "$at" --key-file "$work/key"
stop

echo "== the documents"
"$troupe" config | sed -nE 's/^([a-z]+):$/\1/p; s/^  ([a-z_]+):.*/  \1/p' |
  awk '/^[a-z]/ { section = $1; next } { print section "." $1 }' >"$work/settings"
unknown=
# docs/reference/model-formats.md names tensors, such as `model.norm`, and no settings. grpc.health and
# grpc.reflection are services of gRPC.
for document in $(cd "$root" && find README.md docs deploy -name '*.md' ! -name model-formats.md); do
  for setting in $(grep -oE '`[a-z]+\.[a-z_]+[^`]*`' "$root/$document" |
    grep -oE '`[a-z]+\.[a-z_]+' | tr -d '`' | sort -u); do
    section=${setting%%.*}
    grep -qE "^$section\\." "$work/settings" || continue
    [[ $setting =~ ^grpc\.(health|reflection)$ ]] && continue
    [[ $setting =~ \.(json|jsonl|tsv|yaml|safetensors|h|cc)$ ]] && continue
    grep -qx "$setting" "$work/settings" || unknown+="$document names $setting; there is no such setting"$'\n'
  done
done
judge settings-of-documents "${unknown:-all settings that the documents name exist}" '^all settings'
codes=
errors=docs/reference/errors.md
for code in $(grep -rhoE '\{[45][0-9][0-9], "[a-z_]+"' \
  "$root"/router "$root"/server "$root"/runtime/wire "$root"/runtime/features \
  --include=*.cc --include=*.h --exclude=*_test.cc | grep -oE '"[a-z_]+"' | tr -d '"' | sort -u); do
  [[ $code == *_ ]] || grep -qE "\`$code\`" "$root/$errors" || codes+="$errors lacks the code $code"$'\n'
done
judge codes-of-errors "${codes:-all error codes are in $errors}" '^all error codes'

echo
[ $failed = 0 ] && echo "$rows mistakes, all answered well" || echo "$rows mistakes; see those that FAILED"
exit $failed
