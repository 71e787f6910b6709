// Makes the configurations of the actors of drawn and declared scenarios, and the form of their prompts.
#include <algorithm>

#include "router/request/item_block.h"
#include "sim/cluster/cluster.h"
#include "sim/scenario/deployment_config.h"
#include "sim/world/sim_prototypes.h"

namespace troupe::sim {
namespace {

constexpr double refill_bytes = 100'000;  // per second, of rows refilled before batches need them

// Positions beside a data set's profile: prompt frame and longest item.
constexpr std::uint32_t positions_around = 4'096;

// Returns the form of a drawn scenario. Its blocks at any position see the system prompt where prompt.json
// has it so (deploy/node/prompt_file.cc): if each candidate is scored behind its own tokens.
PromptForm drawn_form(const Scenario& scenario) {
  PromptForm form;
  std::vector<Token> system;
  for (std::uint32_t i = 0; i < scenario.system_tokens; ++i) system.push_back(static_cast<Token>(i % 4 + 1));
  form.system = std::move(system);
  if (scenario.scores_each) {
    form.event = {5};
    form.item = {6};
    form.score = {7, 8};
    form.yes = 9;
    form.no = 10;
  } else {
    form.user = {5, 6};
    form.instruction = {7, 8};
    if (!scenario.generates) form.discriminant = {9};
  }
  form.arrangements = scenario.arrangements;
  form.interchangeable = scenario.interchangeable;
  form.history_part = scenario.history_part;
  form.blocks_see_system = scenario.scores_each;
  if (scenario.prototypes && !scenario.generates)
    form.prototype_set =
        std::make_shared<const SimPrototypes>(scenario.seed, std::string(Cluster::models[0]));
  return form;
}

}  // namespace

PromptForm prompt_form(const WorldData& world, const Scenario& scenario) {
  if (scenario.served) return scenario.served->router.form;
  PromptForm form = scenario.declared ? scenario.declared->form : drawn_form(scenario);
  form.positions_max = positions_around + world.options().history_max;
  form.vocabulary = static_cast<std::uint32_t>(world.rows());
  return form;
}

router::RouterConfig Cluster::drawn_router() const {
  router::RouterConfig c;
  c.form = form_;
  c.policy = scenario_.policy;
  c.shared_areas = scenario_.shared_areas;
  c.limits.approximate = scenario_.approximate;
  c.in_flight_max = scenario_.in_flight_max;
  for (std::size_t i = 0; i < scenario_.tenant_weights.size(); ++i)
    c.tenants.weights[world_.options().tenants.at(i)] = scenario_.tenant_weights[i];
  c.tenants.tenants_max = scenario_.tenants_max;
  c.window = scenario_.window;
  c.reports_uses_elsewhere = !scenario_.split.empty();
  c.routing = scenario_.routing;
  c.quantum = scenario_.turn;
  c.budget = scenario_.deadline;
  c.budget_max = {10'000'000};
  c.heartbeat = scenario_.heartbeat;
  if (scenario_.precompute)
    c.precompute.blocks = router::item_block_kind(c.policy, c.form, c.limits.approximate);
  c.precompute.refresh = scenario_.refresh;
  c.precompute.refresh.replication.page_tokens = scenario_.page_tokens;
  c.precompute.refresh.replication.item_pages =
      static_cast<std::uint64_t>(scenario_.pages * scenario_.item_share);
  c.verify.share = scenario_.verify_share;
  return c;
}

// Returns the configuration of a router that is not served from a real deployment: drawn or declared.
router::RouterConfig Cluster::simulated_router(const Node& node) const {
  router::RouterConfig c = scenario_.declared ? *scenario_.declared : drawn_router();
  c.coordinate = true;
  c.model_version = names_.model_version;
  c.form = form_;
  c.names = names_;
  c.costs = unit_costs();
  c.pace = pace();
  c.pull_share = scenario_.pull_share;
  c.measures_pulls = !scenario_.hardware;  // otherwise the experiment or the link sets the share
  c.features = {};                         // the simulated store always answers or fails at once
  c.verify.rounding = 0;                   // the toy model computes exactly
  // Without a refresh by the popularity that each router observes, one router walks the catalog for all.
  const router::RefreshConfig& refresh = c.precompute.refresh;
  const bool refreshes = refresh.hot_share > 0 || refresh.replication.on;
  if (!scenario_.precompute || (!refreshes && node.id != routers_.front()))
    c.precompute.blocks = router::ItemBlockKind::none;
  return c;
}

actors::CacheMetaConfig Cluster::drawn_cache_meta() const {
  actors::CacheMetaConfig c;
  c.heartbeat = scenario_.heartbeat;
  c.leader_lease = {5 * scenario_.heartbeat.us};
  c.user_popularity.window_us = c.item_popularity.window_us = scenario_.frequency_window.us;
  return c;
}

actors::KvWorkerConfig Cluster::drawn_kv_worker() const {
  actors::KvWorkerConfig c;
  // With several models, message sizes are in pages.
  const std::uint32_t page_tokens = scenario_.models > 1 ? 1 : scenario_.page_tokens;
  c.pool = pool_sizes(scenario_.pages, page_tokens, split_pages(scenario_.pages, shares()));
  c.scrub.interval = scenario_.scrub_interval;
  c.check_reads = scenario_.check_reads;
  c.read_lease = scenario_.read_lease;
  c.heartbeat = scenario_.heartbeat;
  c.store = scenario_.store;
  c.token_bytes = static_cast<double>(page_bytes()) / page_tokens;
  c.tier.back_off = {1'000'000};
  if (scenario_.overlap) c.pull_parts = std::max(unit_costs().layers, 2U);
  return c;
}

actors::InferenceConfig Cluster::drawn_inference() const {
  actors::InferenceConfig c;
  c.heartbeat = scenario_.heartbeat;
  c.slots = scenario_.slots;
  c.queue_max = scenario_.queue_max;
  c.batch_tokens_max = scenario_.batch_tokens_max;
  c.batch_wait = scenario_.batch_wait;
  c.costs = unit_costs();
  c.nominal_pace =
      scenario_.hardware ? placement::pace_of(scenario_.hardware->device, scenario_.hardware->shape) : pace();
  c.model_version = names_.model_version;
  c.overlap = scenario_.overlap;
  if (scenario_.page_rows > 0) c.refill_bytes = refill_bytes;
  if (scenario_.shards) c.shard_owners = workers_;
  c.page_tokens = scenario_.page_tokens;
  return c;
}

}  // namespace troupe::sim
