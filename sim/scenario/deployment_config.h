#pragma once
// Fixed data and configuration of a scenario that simulates a deployment as it is served: the catalog, item
// by item, and each actor's configuration. Nodes, peers and incarnations come from the simulated cluster.
// Users have the profiles that the requests of a trace bring (Clients), and ids are those of the data.
#include <cstdint>
#include <vector>

#include "actors/allocator/allocator_core.h"
#include "actors/cache_meta/cache_meta_core.h"
#include "actors/inference/inference_core.h"
#include "actors/kv_worker/kv_worker_core.h"
#include "router/router_core.h"
#include "runtime/store/store_rows.h"

namespace troupe::sim {

struct DeploymentConfig {
  std::vector<Item> items;                    // by item number; without block names
  std::uint32_t history_events_max = 10'000;  // newest events of a profile that are used
  std::vector<EventFeature> event_features;   // that the model needs of each event beside its item
  router::RouterConfig router;
  actors::CacheMetaConfig cache_meta;
  actors::KvWorkerConfig kv_worker;
  actors::InferenceConfig inference;
  actors::AllocatorConfig allocator;
};

}  // namespace troupe::sim
