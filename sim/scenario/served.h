#pragma once
// What is not drawn of a scenario that simulates a box or a cluster as it is served: the catalog, item for
// item, and the actors as their configuration has them. Nodes, peers and incarnations are the simulated
// cluster's to say. Users have the profiles that the requests of a trace bring (Clients), and ids are those
// of the data.
#include <cstdint>
#include <vector>

#include "actors/allocator/allocator_core.h"
#include "actors/cache_meta/cache_meta_core.h"
#include "actors/inference/inference_core.h"
#include "actors/kv_worker/kv_worker_core.h"
#include "router/router_core.h"

namespace troupe::sim {

struct Served {
  std::vector<Item> items;                    // by number; without the names of their blocks
  std::uint32_t history_events_max = 10'000;  // of a profile: the newest ones
  router::RouterConfig router;
  actors::CacheMetaConfig cache_meta;
  actors::KvWorkerConfig kv_worker;
  actors::InferenceConfig inference;
  actors::AllocatorConfig allocator;
};

}  // namespace troupe::sim
