#pragma once
// Settings of an inference worker: its executor slots, its bounds, and the costs of its models.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "placement/cost/work.h"
#include "runtime/actor/core.h"

namespace troupe::actors {

struct InferenceConfig {
  NodeId node = 1;
  Incarnation incarnation = 1;  // first number of its requests and jobs
  // Routers of the cluster's file. These, and routers that send `Versions`, get its heartbeats.
  std::vector<NodeId> routers{1};
  Duration heartbeat{200'000};
  // Executor slots: concurrent batches. The port needs one more for a batch that runs beside them,
  // and one to change models meanwhile.
  std::uint32_t slots = 1;
  std::uint32_t background_max = 1;  // background plans that have begun and not ended
  std::uint32_t queue_max = 1'024;   // serving plans that do not run yet; more are refused
  std::uint32_t background_queue_max = 16;
  // Maximum work of a batch, in computed tokens that see no others; context adds to a token's work.
  std::uint32_t batch_tokens_max = 4'096;
  std::uint32_t batch_requests_max = 32;
  // Waiting quota of a batch (xGR §7): how long its first plan may wait, ready, for others that fill the
  // batch; 0 = a batch begins as soon as a slot is free.
  Duration batch_wait{0};
  // Maximum wait for blocks that others compute; at most half of the plan's budget.
  Duration block_wait{100'000};
  Duration acquire_grace{20'000};  // additional wait for the KV-cache worker's answer
  placement::UnitCosts costs;      // of the models
  // Nominal pace of the device: how the times of operations, bytes and passes relate. The actual
  // speed is measured as a factor of it.
  placement::Pace nominal_pace{.us_per_operation = 1};
  std::string model_version;        // loaded at start
  Duration model_keep{12'000'000};  // how long a model is kept after the versions no longer name it
  std::size_t models_max = 4;       // models loaded at the same time
  std::size_t recent_max = 4'096;   // ended plans that are remembered
  bool overlap = false;             // plans may begin while their blocks are in flight
  double refill_bytes = 0;          // bytes/s for prefetching rows of embedding tables; 0 = none
  // Nodes that own shards of embedding tables spread over nodes' memory; empty = no table is
  // spread.
  std::vector<NodeId> shard_owners;
  std::uint32_t page_tokens = 1;  // tokens in a page; one shard fills a page
};

}  // namespace troupe::actors
