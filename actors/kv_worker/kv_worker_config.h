#pragma once
// Configuration of a node's KV-cache worker. The parts of the worker read their bounds from it.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/kv_worker/migration.h"
#include "actors/kv_worker/persistent_tier.h"
#include "actors/kv_worker/pulls.h"
#include "actors/kv_worker/row_lending.h"
#include "actors/kv_worker/scrub.h"
#include "runtime/actor/core.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

struct KvWorkerConfig {
  NodeId node = 1;
  // Ids of this node's inference workers if it has several; empty = `node`.
  std::vector<NodeId> models;
  Incarnation incarnation = 1;
  // Cache-metas of the cluster's file. These, and those that ask later, get every change. Any may
  // lead.
  std::vector<NodeId> cache_metas{1};
  PagePoolSizes pool;
  // Inference workers that keep rows of embedding tables, if the pool has a row area.
  RowLending::Config rows;
  std::size_t requests_max = 4'096;      // that hold grants or wait; further requests get no grants
  std::size_t remote_reads_max = 1'024;  // requests of other nodes among `requests_max`
  Duration read_lease{5'000'000};        // lease of other nodes' reads
  Duration heartbeat{200'000};           // longest interval between two messages to a cache-meta
  Duration report{1'000'000};            // between two reports to the allocator
  std::size_t inventory_part = 4'096;    // blocks in one inventory message
  bool pulls = false;                    // true if there is a port that pulls from other nodes
  // A block that is read while in flight is copied in this many parts per page; PullBlocks::parts.
  std::uint32_t pull_parts = 1;
  double token_bytes = 0;     // bytes of a token's keys and values, for the metric and the scrubber
  Scrub::Config scrub;        // its page_bytes are set by the core
  double check_reads = 0.01;  // fraction of reads whose checksum is verified again
  // Keep its jobs fewer than the port's executors; otherwise saves and loads wait behind pulls.
  Pulls::Bounds pulling;
  bool store = false;  // true if there is a persistent tier
  PersistentTier::Bounds tier;
  Migration::Bounds migration;
};

}  // namespace troupe::actors
