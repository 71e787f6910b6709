// Turns a paper's experiment (cluster, data set and policy of one figure) into a scenario and
// requests for the simulation, at a smaller scale.
#include "deploy/lab/experiments/experiment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "deploy/data/device_option.h"
#include "deploy/lab/experiments/declared_router.h"
#include "deploy/lab/experiments/grouped_requests.h"
#include "deploy/lab/planning/plan_placements.h"
#include "deploy/lab/traces/trace_makers.h"
#include "placement/assignment/co_occurrence.h"
#include "placement/assignment/shards.h"
#include "placement/cost/device_profiles.h"
#include "router/request/allowed_plans.h"
#include "router/router_config.h"
#include "sim/cluster/cluster.h"

namespace troupe::deploy {

namespace {

constexpr double gb = 1e9;
constexpr std::uint32_t requests_max = 4'096;  // in flight at a router, and waiting at a worker
constexpr std::uint32_t passing_plans = 4;     // plans whose pulled items fit beside the placed ones

// Sizes of the scaled world.
struct Sizes {
  std::uint32_t items, users, pages, item_pages, replicated, placed;
};

PlanSetup plan_setup(const Experiment& e, const sim::Hardware& hardware) {
  PlanSetup setup{.device = hardware.device, .shape = hardware.shape, .link = placement::find_link(e.link)};
  setup.nodes.resize(e.nodes);
  std::iota(setup.nodes.begin(), setup.nodes.end(), 1);
  setup.candidates = e.candidates;
  setup.user_tokens = e.user_tokens;
  setup.item_tokens = e.item_tokens;
  setup.alpha = e.alpha;
  return setup;
}

// Returns whether requests that name nothing may get the plan, and reuse blocks by it.
bool considers(const router::RouterConfig& router, std::string_view plan) {
  if (!router.policy->reuses) return false;
  const bool approximate = !router.policy->weighs || router.limits.approximate > 0;
  return std::ranges::count(
             router::allowed_plans(router.policy, Arrangement::unnamed, router.form, approximate), plan,
             [](const router::PlanKind* kind) { return kind->name; }) > 0;
}
bool uses_items(const router::RouterConfig& router) {
  return router.precompute.blocks != router::ItemBlockKind::none;
}
bool uses_users(const router::RouterConfig& router) {
  return std::ranges::any_of(std::array{"user", "causal", "blocks", "all_blocks"},
                             [&](std::string_view plan) { return considers(router, plan); });
}

placement::HrcsDecision decide(const Experiment& e, const sim::Hardware& hardware, std::uint32_t items,
                               std::uint32_t item_pages_max) {
  if (e.placement == "replicate") {
    const std::uint32_t all = std::min(items, item_pages_max);
    return {.replicated = all, .placed = all};
  }
  if (e.placement == "hash" || e.placement == "metis" || e.nodes == 1)
    return {.placed = std::min<std::uint64_t>(items, std::uint64_t{item_pages_max} * e.nodes)};
  // Algorithm 1 for the scaled catalog, whose shares of accesses and memory equal the whole one's.
  return placement::decide_replication(
      placement::communication_ratio_max(replication_input(plan_setup(e, hardware))),
      placement::AccessDistribution::zipf(items, e.item_skew), placement::Items(items, 1), e.nodes,
      item_pages_max);
}

// Computes the sizes of the pool and its item area: pages for placed items, and for items that other nodes
// send.
Sizes sizes_of(const Experiment& e, const sim::Hardware& hardware, const router::RouterConfig& router) {
  const double page_bytes = hardware.shape.kv_token_bytes() * e.item_tokens;
  const auto pages_of = [&](double gigabytes) {
    return static_cast<std::uint32_t>(gigabytes * gb / page_bytes / e.scale);
  };
  Sizes s{};
  s.items = static_cast<std::uint32_t>(std::max(1.0, e.items / e.scale));
  s.users = static_cast<std::uint32_t>(std::max(1.0, e.users / e.scale));
  s.pages = pages_of(e.memory_gb);
  if (considers(router, "causal"))
    s.item_pages = std::min(s.pages / 2, passing_plans * e.candidates);  // the prefix
  if (!uses_items(router)) return s;
  const std::uint32_t passing = passing_plans * e.candidates;
  const std::uint32_t most = e.item_gb > 0 ? std::min(s.pages, pages_of(e.item_gb)) : s.pages;
  const std::uint32_t component = most - std::min(passing, most / 4);
  const placement::HrcsDecision decision = decide(e, hardware, s.items, component);
  s.replicated = static_cast<std::uint32_t>(decision.replicated);
  s.placed = static_cast<std::uint32_t>(decision.placed);
  const double sharded = (s.placed - s.replicated) / static_cast<double>(e.nodes);
  const double by_metis = e.placement == "metis" ? 0.05 * sharded : 0;  // about how unequal METIS's parts are
  const double uneven = sharded > 0 && e.nodes > 1 ? by_metis + 3 * std::sqrt(sharded) + passing : 0;
  s.item_pages = static_cast<std::uint32_t>(std::min<double>(s.replicated + sharded + uneven, most));
  if (!uses_users(router)) s.item_pages = s.pages;
  return s;
}

// Generates the requests. Without a request rate, times are numbers of requests.
TracedRequests visits_of(const Experiment& e, const Sizes& sizes, const sim::Scenario& scenario) {
  const bool in_time = e.requests_per_s > 0;
  GeneratedTraceOptions options;
  options.common.per_second = in_time ? e.requests_per_s : 1;
  options.common.arrivals = in_time ? "poisson" : "constant";
  options.common.candidates = e.candidates;
  options.common.views = 1e18;  // profiles stay as they are
  options.common.returns = {e.return_share, e.return_after / e.scale / options.common.per_second,
                            e.return_sigma};
  const auto world = std::make_shared<const sim::WorldData>(sim::world_options(scenario));
  if (e.drawn_by_length > 0)
    options.kept = [=](std::uint32_t user) {
      return std::pow(world->history_length(user) / e.user_tokens_max, e.drawn_by_length);
    };
  if (e.returns_by_length > 0)
    options.away = [=](std::uint32_t user) {
      return std::pow(e.user_tokens / world->history_length(user), e.returns_by_length);
    };
  options.common.seed = e.seed;
  options.users = sizes.users;
  options.items = sizes.items;
  options.user_exponent = e.user_skew;
  options.item_exponent = e.item_skew;
  options.history_median = 0;
  const auto trace = std::make_shared<GeneratedTrace>(options);
  return [trace](TracedRequest& request) { return trace->next(request); };
}

// ---- grouped candidates ----

// Seeds of three streams of the same kind: the run's requests, those that the placement learns from, and
// those that judge it.
constexpr std::uint64_t training_seed = 1'000'003, judging_seed = 2'000'003;
constexpr std::size_t judging_requests = 2'000;

GroupedOptions grouped_options(const Experiment& e, const Sizes& sizes, std::uint64_t seed) {
  return {.items = sizes.items,
          .group_items = e.group_items,
          .users = sizes.users,
          .share = e.group_share,
          .group_skew = e.group_skew,
          .item_skew = e.item_skew,
          .candidates = e.candidates,
          .candidates_sigma = e.candidates_sigma,
          .per_second = e.requests_per_s > 0 ? e.requests_per_s : 1,
          .seed = e.seed + seed};
}

TracedRequests grouped_visits(const Experiment& e, const Sizes& sizes) {
  const auto requests = std::make_shared<GroupedRequests>(grouped_options(e, sizes, 0));
  return [requests](TracedRequest& request) { return requests->next(request); };
}

placement::Placement grouped_placement(const Experiment& e, const Sizes& sizes) {
  GroupedRequests source(grouped_options(e, sizes, training_seed));
  const placement::Requests training = take(source, e.training);
  std::vector<std::uint64_t> counts(sizes.items);
  for (const placement::ItemNumber item : training.items) ++counts[item];
  const auto accesses = placement::AccessDistribution::from_counts(counts);
  const placement::Items items(sizes.items, 1);
  std::vector<placement::NodeNumber> nodes(e.nodes);
  std::iota(nodes.begin(), nodes.end(), 1);
  if (e.placement == "metis")
    return place_by_co_occurrence(training, accesses, items, nodes, sizes.item_pages);
  const placement::Shards shards(nodes);
  return place_hottest_first(0, accesses, items, nodes, sizes.item_pages,
                             [&](placement::ItemNumber item) { return shards.owner(items.key(item)); });
}

void place_groups(const Experiment& e, const Sizes& sizes, PreparedExperiment& prepared) {
  sim::Scenario& s = prepared.options.scenario;
  const placement::Placement placement = grouped_placement(e, sizes);
  router::ItemAssignment::Listed listed;
  for (std::uint32_t i = 0; i < sizes.items; ++i) listed[sim::WorldData::item_id(i)] = placement.place(i);
  s.placement = sim::ItemPlacement::planned;
  s.places = std::make_shared<const router::ItemAssignment>(placement.nodes(), std::move(listed));
  const auto pages = bytes_per_node(placement, placement::Items(sizes.items, 1));
  prepared.node_tokens = static_cast<double>(*std::ranges::max_element(pages)) * e.item_tokens * e.scale;
  GroupedRequests source(grouped_options(e, sizes, judging_seed));
  const BestShares best = best_shares(placement, take(source, judging_requests));
  prepared.best_mean = best.mean;
  prepared.best_median = best.median;
}

void set_hardware(const Experiment& e, sim::Scenario& s) {
  s.hardware = {placement::times_cores(device_of(e.device), e.devices), placement::find_shape(e.shape)};
  if (e.efficiency > 0) s.hardware->device.efficiency = e.efficiency;
  const placement::LinkProfile& link = placement::find_link(e.link);
  s.link.latency_min = s.link.latency_max = {std::max<std::int64_t>(1, std::llround(link.latency_us))};
  s.link.bytes_per_us = link.bandwidth * link.efficiency * 1e-6;
  if (!e.host_link.empty()) {
    const placement::LinkProfile& host = placement::find_link(e.host_link);
    s.host_bytes_per_us = host.bandwidth * host.efficiency * 1e-6 * e.devices;
  }
  const placement::CostModel cost(s.hardware->device, s.hardware->shape);
  const double tokens = e.user_tokens + e.candidates * e.item_tokens;
  s.us_per_token = cost.prefill_us(static_cast<std::uint64_t>(tokens), 0) / tokens;
  const double by_link = cost.kv_token_bytes() / s.link.bytes_per_us / s.us_per_token;
  s.pull_share = e.pull_share > 0 ? e.pull_share : std::min(1.0, by_link);
}

sim::ItemPlacement placement_of(const Experiment& e) {
  if (e.placement == "replicate") return sim::ItemPlacement::replicate;
  if (e.placement == "metis" && e.group_items == 0)
    throw std::invalid_argument(
        e.name +
        ": placement is \"metis\"; expected group_items, which defines the items that METIS places together");
  if (e.placement == "hash" || e.placement == "hrcs" || e.placement == "metis")
    return sim::ItemPlacement::hot_and_cold;
  throw std::invalid_argument(e.name + ": placement is \"" + e.placement +
                              "\"; expected hrcs, replicate, hash or metis");
}

// Returns the settings of a node's router. They are fixed where a node would measure or adapt.
Config settings_of(const Experiment& e) {
  Config config;
  RouterSettings& router = config.router;
  config.set("router.policy", e.policy);
  config.set("router.routing", e.routing);
  router.affinity = e.routing_alpha;
  router.approximate = e.approximate;
  router.shared_areas = e.shared_areas;
  router.requests_in_flight_max = requests_max;
  router.deadline = router.deadline_max = {10'000'000};
  config.pool.hot_share = 0.0;
  return config;
}

void declare_router_of(const Experiment& e, sim::Scenario& s) {
  if (e.arrangements.empty())
    throw std::invalid_argument(
        e.name +
        ": arrangements is empty; expected those that the model was trained for, such "
        "as [\"causal\"], because a published shape has no prompt.json");
  try {
    declare_router({e.arrangements, e.interchangeable, e.system_tokens}, settings_of(e), s);
  } catch (const std::exception& error) {
    throw std::invalid_argument(e.name + ": " + error.what());
  }
}

// Gives every node all roles, as a node of BAT has a GPU, a KV-cache worker and a share of the frontend.
sim::Scenario scenario_of(const Experiment& e) {
  sim::Scenario s;
  s.seed = e.seed;
  s.together = true;
  s.workers = e.nodes;
  s.routers = e.routers > 0 ? std::min(e.routers, e.nodes) : e.nodes;
  s.cache_metas = 1;
  s.tenants = 1;
  s.candidates = e.candidates;
  s.item_tokens = s.page_tokens = e.item_tokens;
  s.profiles = {e.user_tokens,  e.user_sigma,   static_cast<std::uint32_t>(e.user_tokens_max),
                e.event_tokens, e.known_events, e.known_share};
  s.whole_catalogs = true;
  s.pulls_stall = e.pulls_stall;
  s.overlap = e.overlap;
  s.writes_share = 0;
  s.store = false;
  s.placement = placement_of(e);
  s.skew = e.item_skew;
  s.queue_max = requests_max;
  s.batch_tokens_max = e.batch_tokens;
  set_hardware(e, s);
  declare_router_of(e, s);
  return s;
}

}  // namespace

PreparedExperiment prepare(const Experiment& e) {
  PreparedExperiment prepared;
  sim::Scenario& s = prepared.options.scenario = scenario_of(e);
  const Sizes sizes = sizes_of(e, *s.hardware, *s.declared);
  s.items = sizes.items;
  s.users = sizes.users;
  s.pages = sizes.pages;
  s.item_share = static_cast<double>(sizes.item_pages) / sizes.pages;
  s.replicated = std::max(1U, sizes.replicated);
  s.placed = sizes.placed;
  const double requests_per_s =
      1e6 * e.nodes / (s.us_per_token * (e.user_tokens + e.candidates * e.item_tokens));
  const double window_s = e.window_s > 0 ? e.window_s : e.window / requests_per_s;
  s.frequency_window = {std::llround(window_s / e.scale * 1e6)};
  prepared.options.requests = e.group_items > 0 ? grouped_visits(e, sizes) : visits_of(e, sizes, s);
  if (e.group_items > 0 && s.precompute && e.nodes > 1) place_groups(e, sizes, prepared);
  prepared.options.warm_up = e.warm_up;
  prepared.options.measured = e.measured;
  prepared.options.in_flight = e.requests_per_s > 0 ? 0 : std::size_t{e.in_flight} * e.nodes;
  const double page_gb = s.hardware->shape.kv_token_bytes() * e.item_tokens * e.scale / gb;
  prepared.replicated = sizes.replicated * e.scale;
  prepared.placed = sizes.placed * e.scale;
  prepared.item_gb = sizes.item_pages * page_gb;
  prepared.user_gb = (sizes.pages - sizes.item_pages) * page_gb;
  return prepared;
}

}  // namespace troupe::deploy
