// Prepares the simulation of a real deployment: turns its configuration, model (without weights),
// catalog and requests into a scenario.
#include "deploy/lab/what_if/deployment_input.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "deploy/lab/bench/bench_trace.h"
#include "deploy/lab/planning/served_catalog.h"
#include "deploy/node/core_configs.h"
#include "sim/scenario/deployment_config.h"

namespace troupe::deploy {

namespace {

constexpr std::uint32_t cache_metas_max = 2;

NodeRoles roles_of_all(std::uint32_t nodes, std::uint32_t routers) {
  if (routers > nodes)
    throw std::invalid_argument("--routers is " + std::to_string(routers) + "; expected at most --nodes, " +
                                std::to_string(nodes));
  NodeRoles roles;
  roles.workers.resize(nodes);
  std::iota(roles.workers.begin(), roles.workers.end(), 1);
  roles.routers = roles.workers;
  if (routers > 0) roles.routers.resize(routers);
  roles.cache_metas.assign(roles.workers.begin(), roles.workers.begin() + std::min(nodes, cache_metas_max));
  return roles;
}

// Refuses what cannot be simulated.
void describe(const Config& config, ServedModel& model) {
  describe_without_weights(config, model);
  const std::string directory = required_directory(config.model);
  if (std::ranges::any_of(model.facts.towers,
                          [](const Tower& tower) { return tower.action_min > INT64_MIN; }))
    throw std::invalid_argument(
        directory +
        " has a tower that reads the events with certain actions; expected towers that "
        "read the newest events, because a request trace has no actions");
  if (config.inference.overlap)
    throw std::invalid_argument(
        "inference.overlap is true; expected false, because overlapped passes are simulated only in drawn "
        "clusters and experiments");
  if (config.model.tables == ModelSettings::Tables::sharded)
    throw std::invalid_argument(
        "model.tables is sharded; expected memory or mapped, because shards of tables are simulated only in "
        "drawn clusters");
  if (config.model.tables == ModelSettings::Tables::mapped && !config.model.prototypes.empty())
    throw std::invalid_argument(
        "model.tables is mapped, with model.prototypes; expected memory, because prototypes with rows in the "
        "pool are not simulated");
  if (config.model.tables == ModelSettings::Tables::mapped && model.facts.table_columns > 0)
    throw std::invalid_argument("model.tables is mapped; expected memory, because rows of " + directory +
                                " in the pool are simulated only in drawn clusters");
}

TracedRequests requests_of(const DeploymentInput& world, std::uint64_t total) {
  struct Reading {
    explicit Reading(const std::filesystem::path& trace) : reader(trace) {}
    TraceReader reader;
    TraceUsers users;
    std::uint64_t left = 0;
  };
  const auto reading = std::make_shared<Reading>(world.trace);
  reading->left = total;
  return [reading, speed = world.speed](TracedRequest& request) {
    if (reading->left == 0 || !reading->reader.next(request)) return false;
    --reading->left;
    reading->users.visit(reading->reader, request);
    if (speed > 0) request.at = reading->reader.due(request, speed);
    return true;
  };
}

// Returns the number of requests. Throws if they do not match the catalog.
std::uint64_t check_requests(const DeploymentInput& world, const std::vector<Item>& items,
                             std::optional<bool> generates) {
  std::unordered_map<std::string_view, std::uint64_t> tokens;
  for (const Item& item : items) tokens.emplace(item.id, std::max<std::uint64_t>(1, item.tokens.size()));
  const auto tokens_of = [&](const std::string& id) {
    const auto at = tokens.find(id);
    return at == tokens.end() ? 0 : at->second;
  };
  return total_trace(world.trace, world.requests_max, tokens_of, world.speed, generates).requests;
}

// The oracle of searches knows identifiers of one length (sim/world/expected_results.h).
void check_identifiers(const std::vector<Item>& items) {
  const auto [shortest, longest] =
      std::ranges::minmax_element(items, {}, [](const Item& item) { return item.tokens.size(); });
  if (shortest->tokens.size() != longest->tokens.size())
    throw std::invalid_argument("items \"" + shortest->id + "\" and \"" + longest->id +
                                "\" have identifiers of " + std::to_string(shortest->tokens.size()) +
                                " and " + std::to_string(longest->tokens.size()) +
                                " tokens; expected one length, because searches of others are not simulated");
}

// Returns the kind of requests that the model answers; nullopt: rankings and generations.
std::optional<bool> kind_of(const PromptForm& form) {
  if (form.searches_items) return std::nullopt;
  return form.generates();
}

Config on_cores(Config config, std::uint32_t cores) {
  const std::string count = std::to_string(cores);
  if (config.inference.executors == 0) config.set("inference.executors", count);
  if (config.inference.cores == 0) config.set("inference.cores", count);
  return config;
}

std::shared_ptr<const sim::DeploymentConfig> deployment_config(const ServedModel& model,
                                                               const NodeRoles& roles,
                                                               std::vector<Item> items) {
  const auto served = std::make_shared<sim::DeploymentConfig>();
  served->history_events_max = model.config.router.history_events_max;
  served->event_features = model.facts.event_features;
  const auto pages = static_cast<std::uint32_t>(pages_of(model.config.pool, model.facts.layout.page_bytes()));
  const ModelItemBlocks blocks = model_item_blocks(model, items);
  const ItemArea area = item_area(model.config.pool, {&blocks, 1}, pages, false);
  served->items = std::move(items);
  served->router = router_config(model, roles);
  const ServedModel* const only = &model;
  served->router.precompute.refresh.replication.item_pages = hot_item_pages(model.config.pool, {&only, 1});
  served->cache_meta = cache_meta_config(model.config, roles);
  served->kv_worker = kv_worker_config(model.config, roles, model.facts.layout, pages, area);
  served->inference = inference_config(model, roles);
  served->allocator = allocator_config(model.config.pool, roles, pages, area);
  return served;
}

void set_hardware(const DeploymentInput& world, const ServedModel& model, sim::Scenario& s) {
  s.hardware = {world.device, model.facts.shape};
  const bool alone = model.config.inference.cores == 1;
  if (alone) s.hardware->device.split_share = 0;
  s.processors = world.cores;
  s.link.latency_min = s.link.latency_max = {std::max<std::int64_t>(1, std::llround(world.link.latency_us))};
  s.link.bytes_per_us = world.link.bandwidth * world.link.efficiency * 1e-6;
}

}  // namespace

sim::DeploymentOptions deployment_options(const DeploymentInput& world) {
  const NodeRoles roles = roles_of_all(world.nodes, world.routers);
  ServedModel model;
  describe(on_cores(world.config, world.cores), model);
  sim::DeploymentOptions options;
  std::vector<Item> items = served_catalog(model, world.data);
  options.total = check_requests(world, items, kind_of(model.prompt));
  if (model.prompt.generates()) check_identifiers(items);
  options.requests = requests_of(world, options.total);
  options.in_flight = world.speed > 0 ? 0 : world.in_flight;
  sim::Scenario& s = options.scenario;
  s.served = deployment_config(model, roles, std::move(items));
  s.seed = world.seed;
  s.together = true;
  s.workers = world.nodes;
  s.routers = static_cast<std::uint32_t>(roles.routers.size());
  s.cache_metas = static_cast<std::uint32_t>(roles.cache_metas.size());
  s.items = static_cast<std::uint32_t>(s.served->items.size());
  s.tenants = 1;
  s.whole_catalogs = true;
  s.writes_share = 0;
  s.pages = s.served->kv_worker.pool.pages;
  s.page_tokens = s.served->kv_worker.pool.page_tokens;
  s.slots = s.served->inference.slots;
  s.generates = model.prompt.generates();
  s.policy = s.served->router.policy;
  s.approximate = s.served->router.limits.approximate;
  s.deadline = s.served->router.budget;
  s.heartbeat = s.served->router.heartbeat;
  s.verify_on_read = model.config.pool.verify_on_read;
  set_hardware(world, model, s);
  return options;
}

}  // namespace troupe::deploy
