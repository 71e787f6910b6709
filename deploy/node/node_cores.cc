// Makes the cores of one process: adds to the configurations that come from the settings what only
// the running node knows.
#include "deploy/node/node_cores.h"

#include <algorithm>

#include "actors/allocator/allocator_core.h"
#include "actors/cache_meta/cache_meta_core.h"
#include "actors/inference/inference_core.h"
#include "deploy/data/split_policies.h"
#include "deploy/node/core_configs.h"
#include "placement/split/split_choice.h"
#include "runtime/pool/pool_areas.h"

namespace troupe::deploy {
namespace {

// Interval at which cores read the members again.
constexpr std::int64_t heartbeats_to_members = 5;

// Interval at which a router looks whether the plan of pool.placement has changed.
constexpr Duration plan_read_every{5'000'000};

// Returns the policy of pool.split; null if the setting is empty.
std::shared_ptr<placement::SplitPolicy> split_of(const PoolSettings& settings) {
  const std::string &name = settings.split, &file = settings.split_trained;
  if (name.empty()) return nullptr;
  if (!placement::knows_split(name))
    throw ConfigError("pool.split is \"" + name + "\"; expected " + placement::split_names() +
                      "; baselines, such as pid, run in troupe-lab sim --split");
  if (!placement::learned_split(name))
    return placement::make_split(name, {.better = placement::split_gain_min});
  if (file.empty())
    throw ConfigError(
        "pool.split_trained is empty; expected a file that troupe-lab train wrote, for pool.split: " + name);
  try {
    const placement::TrainedPolicies trained = read_split_policies(file);
    return placement::make_split(name, {.trained = &trained});
  } catch (const std::exception& error) {
    throw ConfigError(std::string("pool.split_trained: ") + error.what());
  }
}

// Returns the area whose share is a split policy's alpha: rows if there are any, else items.
std::size_t first_area(std::size_t areas) {
  for (std::size_t i = 0; i < std::min(areas, std::size(area_table)); ++i)
    if (area_table[i].name == "row") return i;
  return 0;
}

}  // namespace

NodeCores::NodeCores(const Config& config, const NodeRoles& roles, const ServedModels& models,
                     Incarnation incarnation, const PageArena* arena)
    : config_(config), roles_(roles), models_(models), incarnation_(incarnation), arena_(arena) {}

router::RouterConfig NodeCores::config_of_router(const ServedModel& model) const {
  router::RouterConfig c = router_config(model, roles_);
  std::vector<const ServedModel*> models;
  for (const auto& served : models_) models.push_back(served.get());
  c.precompute.refresh.replication.item_pages = hot_item_pages(config_.pool, models);
  c.incarnation = incarnation_;
  c.members = roles_.members;
  if (!roles_.is_alone()) c.members_every = {heartbeats_to_members * c.heartbeat.us};
  if (model.placement_port) c.precompute.plan_every = plan_read_every;
  return c;
}

std::unique_ptr<Core> NodeCores::router(const ServedModel& model) const {
  return std::make_unique<router::RouterCore>(config_of_router(model));
}

std::unique_ptr<Core> NodeCores::cache_meta() const {
  actors::CacheMetaConfig c = cache_meta_config(config_, roles_);
  c.incarnation = incarnation_;
  c.actor_ids = {static_cast<std::uint32_t>(models_.size())};
  c.members = roles_.members;
  if (!roles_.is_alone()) c.members_every = {heartbeats_to_members * c.heartbeat.us};
  return std::make_unique<actors::CacheMetaCore>(c);
}

// Returns one part per layer, or fewer if parts would have under 1 KiB of a page.
std::uint32_t NodeCores::pull_parts() const {
  constexpr std::size_t part_bytes_min = 1'024;
  std::uint32_t layers = 2;
  for (const auto& model : models_)
    layers = std::max(layers, static_cast<std::uint32_t>(model->facts.shape.layers));
  return static_cast<std::uint32_t>(
      std::clamp<std::size_t>(arena_->page_bytes() / part_bytes_min, 2, layers));
}

// With several models, the KV-cache worker counts pages instead of tokens.
actors::KvWorkerConfig NodeCores::kv_worker(const ItemArea& items) const {
  const auto pages = static_cast<std::uint32_t>(arena_->pages());
  actors::KvWorkerConfig c = kv_worker_config(config_, roles_, models_.front()->facts.layout, pages, items);
  c.incarnation = incarnation_;
  c.rows.borrowers = models_with_row_cache();
  if (config_.inference.overlap) c.pull_parts = pull_parts();
  const bool has_names = !models_.front()->name.empty();
  c.pool = area_sizes(config_.pool, items, has_row_area(), pages,
                      has_names ? 1 : models_.front()->facts.layout.page_tokens);
  if (!has_names) return c;
  for (const auto& model : models_) c.models.push_back(model->number);
  c.token_bytes = static_cast<double>(arena_->page_bytes());
  return c;
}

// Actor ids of the models whose tables are not in memory.
std::vector<NodeId> NodeCores::models_with_row_cache() const {
  std::vector<NodeId> actor_ids;
  for (const auto& model : models_)
    if (model->facts.table_columns > 0) actor_ids.push_back(model->number);
  return actor_ids;
}

std::unique_ptr<Core> NodeCores::inference_worker(const ServedModel& model) const {
  actors::InferenceConfig c = inference_config(model, roles_);
  c.incarnation = incarnation_;
  c.overlap = c.overlap && model.compute->waits_by_layer();
  return std::make_unique<actors::InferenceCore>(c);
}

std::unique_ptr<Core> NodeCores::allocator(const ItemArea& items) const {
  actors::AllocatorConfig c =
      allocator_config(config_.pool, roles_, static_cast<std::uint32_t>(arena_->pages()), items);
  c.shares = shares_of(config_.pool, items, has_row_area());
  c.policy = split_of(config_.pool);
  c.first = first_area(c.shares.size());
  c.window = config_.pool.split_window;
  c.objective = config_.pool.split_objective;
  c.history_max = models_.front()->facts.limits.positions_max;
  return std::make_unique<actors::AllocatorCore>(c);
}

}  // namespace troupe::deploy
