#!/usr/bin/env bash
# Runs a cluster of three nodes on one machine. Each node has a network namespace; a bridge joins them, TLS
# secures their links, and an etcd coordinates them. The script imports the demo world, ranks, kills a worker
# meanwhile, restarts it, and shows the cluster at each step. Needs root. Leaves only its data folder behind.
# Safe to run again.
#   deploy/cluster-demo.sh [data folder]
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:-cluster-demo-data}
demo=$PWD/deploy/demo
names=(front worker-1 worker-2)
etcd_client=http://10.88.0.1:2379

if [ "$(id -u)" -ne 0 ] || ! ip netns list >/dev/null 2>&1; then
  echo "skipped: network namespaces need root and the ip command (deploy/install.sh packages-cluster)" >&2
  exit 77
fi
deploy/install.sh packages packages-cluster
deploy/build.sh release troupe
troupe=$PWD/build/deploy/troupe
mark=troupe-$$

declare -A process
cleanup() {
  for name in "${!process[@]}"; do kill "${process[$name]}" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for name in "${names[@]}" net; do ip netns del "$mark-$name" 2>/dev/null || true; done
}
trap cleanup EXIT
inside() { local name=$1; shift; ip netns exec "$mark-$name" "$@"; }

# Each node has one network card, whose other end is a port of the bridge. The bridge has its own namespace.
ip netns add "$mark-net"
inside net ip link add bridge type bridge
inside net ip link set bridge up
number=0
for name in "${names[@]}"; do
  number=$((number + 1))
  ip netns add "$mark-$name"
  inside "$name" ip link set lo up
  inside net ip link add "port$number" type veth peer name eth0 netns "$mark-$name"
  inside net ip link set "port$number" master bridge up
  inside "$name" ip address add "10.88.0.$number/24" dev eth0
  inside "$name" ip link set eth0 up
done

rm -rf "$data"
mkdir -p "$data"
data=$(cd "$data" && pwd)
cat >"$data/cluster.yaml" <<END
cluster:
  name: demo
  coordination: $etcd_client
  certificates: $data/certificates
model: {directory: $demo/model}
http: {address: 127.0.0.1, port: 8080}
nodes:
  - {node: 1, name: front, host: 10.88.0.1, port: 7000, roles: [router, cache_meta],
     settings: {node: {data_dir: $data/front}}}
  - {node: 2, name: worker-1, host: 10.88.0.2, port: 7000, roles: [worker],
     settings: {node: {data_dir: $data/worker-1}}}
  - {node: 3, name: worker-2, host: 10.88.0.3, port: 7000, roles: [worker],
     settings: {node: {data_dir: $data/worker-2}}}
END
mkdir "$data/front" "$data/worker-1" "$data/worker-2"
"$troupe" certs "$data/certificates" --config "$data/cluster.yaml"
"$troupe" import --model "$demo/model" --data-dir "$data/front" --data "$demo/world"

start() {
  local name=$1
  ip netns exec "$mark-$name" "$troupe" node --config "$data/cluster.yaml" --name "$name" \
    --set node.log_file="$data/$name.log" &
  process[$name]=$!
}
at_front() { inside front "$troupe" "$@" --server 127.0.0.1:8080; }
actors() { at_front status | grep -E '^ +[0-9]+  ' | cut -c1-28; }
until_there() {  # waits until $1 actors are ready
  for _ in $(seq 100); do
    [ "$(actors 2>/dev/null | grep -c ' yes')" -ge "$1" ] && return
    sleep 0.1
  done
  echo "the cluster did not come up: see $data/*.log" >&2
  exit 1
}

ip netns exec "$mark-front" etcd --data-dir "$data/etcd" \
  --listen-client-urls "$etcd_client" --advertise-client-urls "$etcd_client" \
  --listen-peer-urls http://10.88.0.1:2380 --initial-advertise-peer-urls http://10.88.0.1:2380 \
  --initial-cluster default=http://10.88.0.1:2380 >"$data/etcd.log" 2>&1 &
process[etcd]=$!
for name in "${names[@]}"; do start "$name"; done
until_there 8

echo
echo "Three nodes:"
actors
requests=$demo/world/requests.jsonl
at_front rank --requests "$requests" --data "$demo/world" --users 2 --rounds 2

echo
echo "Where items are (pool.placement: auto, the default: each on one worker, hot ones on all):"
at_front status | grep -E ' (placement|items_hot|hot_share|link_speed) '

echo
echo "Ranking for 200 users while worker-1 is killed:"
at_front rank --requests "$requests" --users 200 --rounds 2 --costs-only >"$data/rank.txt" &
ranking=$!
sleep 0.3
kill -9 "${process[worker-1]}"
wait "${process[worker-1]}" 2>/dev/null || true
wait "$ranking"
answered() { grep -cE ' (item|user|recompute) ' "$data/rank.txt"; }
echo "all $(answered) requests were answered. The remaining actors:"
actors

echo
echo "worker-1 restarts:"
start worker-1
until_there 8
actors
at_front rank --requests "$requests" --users 200 --rounds 1 --costs-only >"$data/rank.txt"
echo "all $(answered) requests were answered;" \
  "blocks that workers pulled from each other:"
at_front status | awk '/kv_worker/ { node = $1 } /blocks_pulled/ { print "  node " node ": " $NF }'
echo
echo "The logs are $data/*.log; the cluster file is $data/cluster.yaml."
