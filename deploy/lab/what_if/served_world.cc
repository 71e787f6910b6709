#include "deploy/lab/what_if/served_world.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "deploy/lab/bench/bench_trace.h"
#include "deploy/models/engine.h"
#include "deploy/node/core_configs.h"
#include "deploy/node/features.h"
#include "sim/scenario/served.h"

namespace troupe::deploy {

namespace {

constexpr std::uint32_t cache_metas_max = 2;

Place place_of_all(std::uint32_t nodes) {
  Place place;
  place.workers.resize(nodes);
  std::iota(place.workers.begin(), place.workers.end(), 1);
  place.routers = place.workers;
  place.cache_metas.assign(place.workers.begin(), place.workers.begin() + std::min(nodes, cache_metas_max));
  return place;
}

// Its weights are not read: blocks have other names than those of a box, and everything else is the same.
void describe(const Config& config, ServedModel& model) {
  model.config = config;
  describe_model(model, all_families());
  const std::string directory = required_text(config, "model.directory");
  if (model.prompt.generates() || model.prompt.scores_each() || !model.prompt.history_plan.empty())
    throw std::invalid_argument(directory +
                                " is no ranker that reads its scores at a discriminant; expected one, for no "
                                "others are simulated as they are served");
  if (config.boolean("inference.overlap"))
    throw std::invalid_argument(
        "inference.overlap is true; expected false, for passes beside their pulls are simulated in drawn "
        "clusters "
        "and experiments, not as they are served");
  if (config.text("model.tables") == "sharded")
    throw std::invalid_argument(
        "model.tables is sharded; expected memory or mapped, for shards of tables are simulated in drawn "
        "clusters, "
        "not as they are served");
  if (config.text("model.tables") == "mapped" && !config.text("model.prototypes").empty())
    throw std::invalid_argument(
        "model.tables is mapped, with model.prototypes; expected memory, for rows of prototypes in the pool "
        "are not simulated");
  model.names = {"as-served", layout_version(config)};
}

// In the order of their numbers.
std::vector<Item> items_of(const Catalog& catalog) {
  std::vector<Item> items;
  for (ItemNumber at = catalog.next(0); at != no_item; at = catalog.next(at + 1)) {
    items.push_back(catalog.item(at).copy());
    items.back().block = {};
  }
  return items;
}

std::vector<Item> imported_items(const std::filesystem::path& data, const kernels::Vocabulary& vocabulary) {
  std::vector<Item> items;
  std::unordered_map<std::string, std::size_t> known;
  for (PutItem& put : read_items(data, vocabulary)) {
    const auto [at, is_new] = known.emplace(put.item, items.size());
    if (is_new) items.emplace_back();
    items[at->second] = {put.item, put.title, {put.tokens.begin(), put.tokens.end()}, put.identifier, {}};
  }
  return items;
}

// Of a box that does not run.
std::vector<Item> stored_items(const Config& config, const ModelFacts& facts) {
  const std::string folder = required_text(config, "node.data_dir");
  if (!std::filesystem::exists(folder))
    throw ConfigError("node.data_dir " + folder +
                      " is not there; expected the data folder of a box, or --data");
  Store store(folder, store_options(config));
  const auto features = open_features(config, &store, feature_limits(config, facts), 1,
                                      [](std::span<const Token>) { return BlockName{}; });
  const CatalogPointer catalog = features->present_catalog();
  if (!catalog) throw ConfigError(folder + " has no catalog; expected one that troupe import made");
  return items_of(*catalog);
}

TracedRequests requests_of(const ServedWorld& world, std::uint64_t total) {
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

// How many there are. Throws where they do not go with the catalog.
std::uint64_t check_requests(const ServedWorld& world, const std::vector<Item>& items) {
  std::unordered_map<std::string_view, std::uint64_t> tokens;
  for (const Item& item : items) tokens.emplace(item.id, std::max<std::uint64_t>(1, item.tokens.size()));
  const auto tokens_of = [&](const std::string& id) {
    const auto at = tokens.find(id);
    return at == tokens.end() ? 0 : at->second;
  };
  return survey_trace(world.trace, world.requests_max, tokens_of, world.speed).requests;
}

Config on_cores(Config config, std::uint32_t cores) {
  for (const char* knob : {"inference.executors", "inference.cores"})
    if (config.integer(knob) == 0) config.set(knob, std::to_string(cores));
  return config;
}

std::shared_ptr<const sim::Served> served_by(const ServedModel& model, const Place& place,
                                             std::vector<Item> items) {
  const auto served = std::make_shared<sim::Served>();
  served->items = std::move(items);
  served->history_events_max = static_cast<std::uint32_t>(model.config.integer("router.history_events_max"));
  const auto pages = static_cast<std::uint32_t>(pages_of(model.config, model.facts.layout.page_bytes()));
  served->router = router_config(model, place);
  served->cache_meta = cache_meta_config(model.config, place);
  served->kv_worker = kv_worker_config(model.config, place, model.facts.layout, pages);
  served->inference = inference_config(model, place);
  served->allocator = allocator_config(model.config, place, pages);
  return served;
}

void set_hardware(const ServedWorld& world, const ServedModel& model, sim::Scenario& s) {
  s.hardware = {world.device, model.facts.shape};
  const bool alone = model.config.integer("inference.cores") == 1;
  if (alone) s.hardware->device.split_share = 0;
  s.processors = world.cores;
  s.link.latency_min = s.link.latency_max = {std::max<std::int64_t>(1, std::llround(world.link.latency_us))};
  s.link.bytes_per_us = world.link.bandwidth * world.link.efficiency * 1e-6;
}

}  // namespace

sim::ServedOptions served_options(const ServedWorld& world) {
  ServedModel model;
  describe(on_cores(world.config, world.cores), model);
  const Place place = place_of_all(world.nodes);
  sim::ServedOptions options;
  std::vector<Item> items = world.data.empty() ? stored_items(model.config, model.facts)
                                               : imported_items(world.data, model.vocabulary);
  if (items.empty()) throw ImportError("the catalog has no items; expected at least one");
  options.total = check_requests(world, items);
  options.requests = requests_of(world, options.total);
  options.in_flight = world.speed > 0 ? 0 : world.in_flight;
  sim::Scenario& s = options.scenario;
  s.served = served_by(model, place, std::move(items));
  s.seed = world.seed;
  s.together = true;
  s.workers = s.routers = world.nodes;
  s.cache_metas = static_cast<std::uint32_t>(place.cache_metas.size());
  s.items = static_cast<std::uint32_t>(s.served->items.size());
  s.tenants = 1;
  s.whole_catalogs = true;
  s.writes_share = 0;
  s.pages = s.served->kv_worker.pool.pages;
  s.page_tokens = s.served->kv_worker.pool.page_tokens;
  s.lanes = s.served->inference.lanes;
  s.policy = s.served->router.policy;
  s.approximate = s.served->router.limits.approximate;
  s.deadline = s.served->router.budget;
  s.heartbeat = s.served->router.heartbeat;
  s.verify_on_read = model.config.boolean("pool.verify_on_read");
  set_hardware(world, model, s);
  return options;
}

}  // namespace troupe::deploy
