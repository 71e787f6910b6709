#pragma once
// Makes the cores of one process. Their configurations come from the settings (core_configs.h); this
// class adds what only the running node knows: its incarnation, its models and its pool.
#include <memory>
#include <vector>

#include "actors/kv_worker/kv_worker_core.h"
#include "deploy/node/item_area.h"
#include "deploy/node/node_roles.h"
#include "deploy/node/served_model.h"
#include "router/router_core.h"
#include "runtime/pool/page_arena.h"

namespace troupe::deploy {

using ServedModels = std::vector<std::unique_ptr<ServedModel>>;

class NodeCores {
 public:
  // All must outlive this object. `arena` is null if the node is no worker.
  NodeCores(const Config& config, const NodeRoles& roles, const ServedModels& models, Incarnation incarnation,
            const PageArena* arena);

  bool has_row_area() const { return !models_with_row_cache().empty(); }

  // Each throws ConfigError for invalid settings.
  router::RouterConfig config_of_router(const ServedModel& model) const;
  std::unique_ptr<Core> router(const ServedModel& model) const;
  std::unique_ptr<Core> cache_meta() const;
  actors::KvWorkerConfig kv_worker(const ItemArea& items) const;
  std::unique_ptr<Core> inference_worker(const ServedModel& model) const;
  std::unique_ptr<Core> allocator(const ItemArea& items) const;

 private:
  std::uint32_t pull_parts() const;
  std::vector<NodeId> models_with_row_cache() const;

  const Config& config_;
  const NodeRoles& roles_;
  const ServedModels& models_;
  const Incarnation incarnation_;
  const PageArena* const arena_;
};

}  // namespace troupe::deploy
