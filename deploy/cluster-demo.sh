#!/usr/bin/env bash
# Installs packages, builds troupe, and runs deploy/demo/cluster_demo.py: a cluster of a front, three workers
# and an etcd on this machine, which is changed while clients ask it. It prints the address of its live page
# first. Leaves only its data folder behind. Safe to run again.
#   deploy/cluster-demo.sh [data folder] [options of cluster_demo.py, such as --stay]
set -euo pipefail
cd "$(dirname "$0")/.."
data=cluster-demo-data
if [ $# -gt 0 ] && [[ $1 != --* ]]; then data=$1 && shift; fi
deploy/install.sh packages packages-cluster
deploy/build.sh release troupe
exec python3 -B deploy/demo/cluster_demo.py --troupe build/deploy/troupe --data "$data" "$@"
