// Turns settings into the configurations of the cores. Names in settings, such as those of policies
// and devices, are looked up here; an unknown one is refused with the setting's name.
#include "deploy/node/core_configs.h"

#include <algorithm>
#include <stdexcept>

#include "deploy/data/device_option.h"
#include "deploy/models/engine.h"
#include "deploy/models/rounding.h"
#include "deploy/node/item_placement.h"
#include "placement/cost/device_profiles.h"
#include "router/request/allowed_plans.h"
#include "router/request/item_block.h"
#include "runtime/pool/pool_areas.h"

namespace troupe::deploy {
namespace {

// Interval at which a router checks whether its profiles and items are available.
constexpr Duration features_asked_every{1'000'000};

// Pace that routers assume for a worker without measurements, if router.device is empty.
constexpr double first_us_per_token = 20;

// Returns the policy of requests that name none, which must serve what the model's form allows them.
router::Policy serving_policy(const std::string& name, const PromptForm& form) {
  const auto policy = router::find_policy(name);
  if (!policy) throw ConfigError("router.policy is " + router::policy_fault_text(name));
  if (const std::string why = router::why_not_usual(*policy, form); !why.empty())
    throw ConfigError("router.policy is \"" + name + "\", which " + why + "; expected one of " +
                      router::usual_policy_names(form) +
                      ", or a prompt form that lists these arrangements as interchangeable (troupe verify)");
  return *policy;
}

// Computations in f32 are replayed to 1e-5 (the default), others up to their rounding.
double replay_rounding(const Config& config) {
  const double bound = rounding_bounds(config).reuse;
  return bound > rounding_bounds({}).reuse ? bound : router::ReplayConfig{}.rounding;
}

router::TenantWeights tenant_weights(const std::string& text) {
  try {
    return router::parse_tenant_weights(text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(std::string("router.tenant_weights: ") + error.what());
  }
}

placement::DeviceProfile serving_device(const std::string& device) {
  try {
    return device_of(device);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(std::string("router.device: ") + error.what());
  }
}

// Accesses that routers count for Algorithm 1. An item with fewer than 8 of them is not hot.
constexpr std::uint32_t counted_accesses = 262'144;

// Silence of a worker after which others stand in for its items: 30 s by default.
constexpr std::int64_t heartbeats_to_away = 150;

// On a single node, and where no item blocks are looked up, `auto` assigns nothing.
void place_items(router::RouterConfig& c, const ServedModel& model, const NodeRoles& roles) {
  const PoolSettings& settings = model.config.pool;
  const bool decides = settings.placement == "auto";
  const bool is_needed = !roles.is_alone() && c.precompute.blocks != router::ItemBlockKind::none;
  c.placement = decides && !is_needed ? "any" : settings.placement;
  c.places = item_places(c.placement, roles.workers);
  router::RefreshConfig& refresh = c.precompute.refresh;
  refresh.away_after = {heartbeats_to_away * c.heartbeat.us};
  if (settings.hot_share) refresh.hot_share = *settings.hot_share;
  refresh.replication = {.on = decides && is_needed && !settings.hot_share,
                         .page_tokens = std::max(1U, model.facts.layout.page_tokens)};
  if (refresh.replication.on) refresh.window = counted_accesses;
}

}  // namespace

std::size_t pages_of(const PoolSettings& settings, std::size_t page_bytes) {
  const std::size_t memory = settings.memory;
  const std::size_t pages = std::min<std::size_t>(memory / page_bytes, 0xFFFF'FFFF);
  if (pages == 0)
    throw ConfigError("pool.memory is " + std::to_string(memory) +
                      " bytes, less than one page; expected at least " + std::to_string(page_bytes) +
                      " bytes for this model");
  return pages;
}

std::vector<double> shares_of(const PoolSettings& settings, const ItemArea& items, bool has_rows) {
  return area_shares({.item = items.share, .row = settings.row_share}, has_rows);
}

PagePoolSizes area_sizes(const PoolSettings& settings, const ItemArea& items, bool has_rows,
                         std::uint32_t pages, std::uint32_t page_tokens) {
  PagePoolSizes sizes =
      pool_sizes(pages, page_tokens, split_pages(pages, shares_of(settings, items, has_rows)));
  if (items.in_user_area) merge_area(sizes, PoolArea::item, PoolArea::user);
  return sizes;
}

router::ItemBlockKind item_blocks_of(const ServedModel& model) {
  const RouterSettings& settings = model.config.router;
  return router::item_block_kind(serving_policy(settings.policy, model.prompt), model.prompt,
                                 settings.approximate);
}

std::uint64_t hot_item_pages(const PoolSettings& settings, std::span<const ServedModel* const> models) {
  std::size_t page_bytes = 1;
  bool has_rows = false;
  std::uint64_t models_with_items = 0;
  std::vector<ModelItemBlocks> blocks;
  for (const ServedModel* model : models) {
    page_bytes = std::max(page_bytes, model->facts.layout.page_bytes());
    has_rows = has_rows || model->facts.table_columns > 0;
    // A worker may be of another node, so the area is that of a node which does not know the catalogs.
    blocks.push_back(model_item_blocks(*model, nullptr));
    if (blocks.back().reused) ++models_with_items;
  }
  if (models_with_items == 0) return 0;
  const auto pages =
      static_cast<std::uint32_t>(std::min<std::size_t>(settings.memory / page_bytes, 0xFFFF'FFFF));
  const std::vector<double> shares =
      shares_of(settings, item_area(settings, blocks, pages, has_rows), has_rows);
  return split_pages(pages, shares).at(index_of(PoolArea::item)) / models_with_items;
}

router::RouterConfig router_config(const ServedModel& model, const NodeRoles& place) {
  const Config& config = model.config;
  const RouterSettings& settings = config.router;
  router::RouterConfig c;
  c.node = place.node;
  c.has_worker = place.worker;
  c.has_cache_meta = place.cache_meta;
  c.cache_metas = place.cache_metas;
  c.workers = place.workers;
  c.joined = place.joined;
  for (const NodeId router : place.routers)
    if (router != place.node) c.routers.push_back(router);
  c.heartbeat = config.cluster.heartbeat;
  c.reports_uses_elsewhere = !config.pool.split.empty();
  // the model of this process, whatever version was served before
  c.model_version = model.names.model_version;
  c.form = model.prompt;
  c.names = model.names;
  c.policy = serving_policy(settings.policy, model.prompt);
  if (c.policy.repair().prototypes && !model.prototypes)
    throw ConfigError("router.policy is " + c.policy.name() +
                      " and model.prototypes is empty; expected a prototypes file");
  c.limits.candidates_max = settings.candidates_max;
  c.limits.width_max = settings.width_max;
  if (model.facts.limits.width_max > 0)
    c.limits.width_max = std::min(c.limits.width_max, model.facts.limits.width_max);
  c.limits.completion_tokens_max = settings.completion_tokens_max;
  c.limits.score_items_max = settings.score_items_max;
  c.limits.score_labels_max = settings.score_labels_max;
  c.limits.request_tokens_max = settings.request_tokens_max;
  c.limits.history_max = settings.history_events_max;
  c.limits.unknown_user = settings.unknown_user;
  c.limits.approximate = settings.approximate;
  c.limits.pass_tokens_max = model.facts.pass_tokens_max;
  c.limits.token_bytes = model.facts.token_bytes;
  c.in_flight_max = settings.requests_in_flight_max;
  c.tenants = {.weights = tenant_weights(settings.tenant_weights),
               .tenants_max = settings.tenants_max,
               .requests_max = settings.tenant_requests_max,
               .work_us_max = settings.tenant_work_max.us};
  c.quantum = settings.quantum;
  c.window = settings.window;
  c.routing = {*router::find_routing(word_of(settings.routing)), settings.affinity};
  c.budget = settings.deadline;
  c.budget_max = settings.deadline_max;
  c.coordinate = place.routers.size() > 1 || !config.model.versions.empty();
  c.features = {.every = features_asked_every, .needs_items = settings.needs_items};
  if (config.pool.precompute_items) c.precompute.blocks = item_blocks_of(model);
  c.verify.share = config.verify.share;
  c.verify.rounding = rounding_bounds(config).reuse;
  c.verify.budget = settings.deadline_max;
  c.replay.keep = config.replay.keep;
  c.replay.rounding = replay_rounding(config);
  place_items(c, model, place);
  const placement::ModelShape& shape = model.facts.shape;
  c.costs = placement::unit_costs(shape);
  c.pace = {.us_per_operation = first_us_per_token / c.costs.token_operations};
  c.pull_share = settings.pull_share;
  c.measures_pulls = settings.measure_pulls;
  c.shared_areas = settings.shared_areas;
  if (const std::string& device = settings.device; !device.empty())
    c.block_pace = c.pace = placement::pace_of(serving_device(device), shape);
  return c;
}

actors::CacheMetaConfig cache_meta_config(const Config& config, const NodeRoles& place) {
  actors::CacheMetaConfig c;
  c.node = place.node;
  c.has_worker = place.worker;
  c.kv_nodes = place.workers;
  c.routers = place.routers;
  c.joined = place.joined;
  c.heartbeat = config.cluster.heartbeat;
  c.leader_lease = {5 * c.heartbeat.us};
  c.user_popularity.window_us = c.item_popularity.window_us = config.router.frequency_window.us;
  return c;
}

actors::KvWorkerConfig kv_worker_config(const Config& config, const NodeRoles& place,
                                        const kernels::PageLayout& layout, std::uint32_t pages,
                                        const ItemArea& items) {
  actors::KvWorkerConfig c;
  c.node = place.node;
  c.cache_metas = place.cache_metas;
  c.heartbeat = config.cluster.heartbeat;
  c.pool = area_sizes(config.pool, items, false, pages, layout.page_tokens);
  c.check_reads = config.pool.check_reads;
  c.scrub.interval = config.pool.scrub_interval;
  c.scrub.cost = config.pool.scrub_cost;
  c.store = config.pool.store_item_blocks;
  c.pulls = !place.is_alone();
  c.token_bytes = static_cast<double>(layout.token_bytes());
  return c;
}

actors::InferenceConfig inference_config(const ServedModel& model, const NodeRoles& place) {
  const Config& config = model.config;
  actors::InferenceConfig c;
  c.node = place.node;
  c.routers = place.routers;
  c.heartbeat = config.cluster.heartbeat;
  c.model_version = model.names.model_version;
  c.slots = executors_of(config);
  c.queue_max = config.inference.queue_max;
  c.batch_tokens_max = config.inference.batch_tokens_max;
  c.batch_wait = config.inference.batch_wait;
  c.overlap = config.inference.overlap;
  const placement::ModelShape& shape = model.facts.shape;
  const std::string& device = config.router.device;
  c.costs = placement::unit_costs(shape);
  c.nominal_pace = placement::pace_of(serving_device(device.empty() ? "cpu" : device), shape);
  c.page_tokens = model.facts.layout.page_tokens;
  if (model.has_sharded_table()) c.shard_owners = place.workers;
  if (model.facts.table_columns > 0) c.refill_bytes = static_cast<double>(config.model.table_refill);
  return c;
}

actors::AllocatorConfig allocator_config(const PoolSettings& settings, const NodeRoles& place,
                                         std::uint32_t pages, const ItemArea& items) {
  actors::AllocatorConfig c;
  c.node = place.node;
  c.pages = pages;
  c.shares = shares_of(settings, items, false);
  c.item_area = items.rule;
  return c;
}

}  // namespace troupe::deploy
