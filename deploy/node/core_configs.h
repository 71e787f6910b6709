#pragma once
// What the knobs of a node come to for its cores: the one place that says so, for boxes and for whoever
// simulates them (deploy/foresight). Incarnations are whoever starts them to say.
#include "actors/allocator/allocator_core.h"
#include "actors/cache_meta/cache_meta_core.h"
#include "actors/inference/inference_core.h"
#include "actors/kv_worker/kv_worker_core.h"
#include "deploy/node/box.h"
#include "router/router_core.h"

namespace troupe::deploy {

// Of pool.memory. Throws ConfigError if that is less than one page.
std::size_t pages_of(const Config& config, std::size_t page_bytes);

// `model`: described (served_model.h). All throw ConfigError of what makes no sense.
router::RouterConfig router_config(const ServedModel& model, const Place& place);
actors::CacheMetaConfig cache_meta_config(const Config& config, const Place& place);
// Of a node with one model.
actors::KvWorkerConfig kv_worker_config(const Config& config, const Place& place,
                                        const kernels::PageLayout& layout, std::uint32_t pages);
actors::InferenceConfig inference_config(const ServedModel& model, const Place& place);
actors::AllocatorConfig allocator_config(const Config& config, const Place& place, std::uint32_t pages);

}  // namespace troupe::deploy
