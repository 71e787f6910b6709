#pragma once
// Derives the configuration of each core from a node's settings. Production nodes and the what-if
// simulation (deploy/lab/what_if) both use these functions. Callers set the incarnations, and the pages that
// routers may fill with hot items (hot_item_pages).
#include <cstdint>
#include <span>
#include <vector>

#include "actors/allocator/allocator_core.h"
#include "actors/cache_meta/cache_meta_core.h"
#include "actors/inference/inference_core.h"
#include "actors/kv_worker/kv_worker_core.h"
#include "deploy/node/item_area.h"
#include "deploy/node/node_roles.h"
#include "deploy/node/served_model.h"
#include "router/router_core.h"

namespace troupe::deploy {

// Returns the initial shares of the pool's areas (runtime/pool/pool_areas.h).
std::vector<double> shares_of(const PoolSettings& settings, const ItemArea& items, bool has_rows);
// Returns the sizes of the pool's areas.
PagePoolSizes area_sizes(const PoolSettings& settings, const ItemArea& items, bool has_rows,
                         std::uint32_t pages, std::uint32_t page_tokens);
// Returns the kind of item block that requests to the model which name no policy look up.
router::ItemBlockKind item_blocks_of(const ServedModel& model);
// Returns the number of pages in pool.memory. Throws ConfigError if that is less than one page.
std::size_t pages_of(const PoolSettings& settings, std::size_t page_bytes);
// Returns the pages that hot items of one model may fill on each worker (Algorithm 1 of BAT; in a router's
// configuration precompute.refresh.replication.item_pages). The models whose requests look up item blocks
// have equal parts of the item area. `models` are all models of the node. Every worker is assumed to have
// this node's settings and models.
std::uint64_t hot_item_pages(const PoolSettings& settings, std::span<const ServedModel* const> models);

// `model` must have been filled by describe_model (served_model.h). All throw ConfigError for
// invalid settings.
router::RouterConfig router_config(const ServedModel& model, const NodeRoles& roles);
actors::CacheMetaConfig cache_meta_config(const Config& config, const NodeRoles& roles);
// For a node with one model.
actors::KvWorkerConfig kv_worker_config(const Config& config, const NodeRoles& roles,
                                        const kernels::PageLayout& layout, std::uint32_t pages,
                                        const ItemArea& items);
actors::InferenceConfig inference_config(const ServedModel& model, const NodeRoles& roles);
actors::AllocatorConfig allocator_config(const PoolSettings& settings, const NodeRoles& roles,
                                         std::uint32_t pages, const ItemArea& items);

}  // namespace troupe::deploy
