// Builds the simulated cluster of a scenario: nodes with the production actors, and network, disks
// and data around them. Also kills, restarts, pauses, adds and removes nodes.
#include "sim/cluster/cluster.h"

#include <algorithm>

#include "placement/baselines/experiment_split.h"
#include "sim/scenario/deployment_config.h"

namespace troupe::sim {
namespace {

constexpr std::uint32_t feature_connections = 64, coordination_slots = 2, store_slots = 9;
constexpr std::uint64_t page_bytes_per_token = 4'096;
constexpr std::uint64_t disk_pages = 4'096;
constexpr std::size_t names_max = 1'000'000;    // names of item blocks that are remembered
constexpr std::int64_t members_heartbeats = 5;  // between two reads of the member list
// Time until a host learns that a peer is dead.
constexpr Duration loss_report_min{16'000}, loss_report_max{2'400'000};
constexpr double reused_token_cost = 0.03;  // relative to a new token, on the device

}  // namespace

WorldOptions world_options(const Scenario& s) {
  WorldOptions options;
  options.seed = s.seed;
  options.tenants.clear();
  for (std::uint32_t i = 0; i < s.tenants; ++i)
    options.tenants.push_back(i == 0 ? "" : "t" + std::to_string(i));
  options.items = s.items;
  options.users = s.users;
  options.item_exponent = options.user_exponent = s.skew;
  if (s.whole_catalogs) options.absent = 0;
  if (s.item_tokens > 0) options.item_tokens_min = options.item_tokens_max = s.item_tokens;
  if (s.generates) options.vocabulary = 16;
  options.history_mean = s.profiles.mean;
  options.history_sigma = s.profiles.sigma;
  options.history_max = s.profiles.max;
  if (s.profiles.event_tokens > 0) options.event_tokens_max = s.profiles.event_tokens;
  options.known_events = s.profiles.known;
  options.known_share = s.profiles.known_share;
  if (!s.served) return options;
  options.catalog = {s.served, &s.served->items};
  options.items = static_cast<std::uint32_t>(s.served->items.size());
  options.history_events_max = s.served->history_events_max;
  options.event_features = s.served->event_features;
  return options;
}

namespace {

// Low item numbers are the popular ones.
std::shared_ptr<const router::ItemAssignment> item_places(const Scenario& s,
                                                          const std::vector<NodeId>& workers) {
  switch (s.placement) {
    case ItemPlacement::any:
      return nullptr;
    case ItemPlacement::replicate:
      return std::make_shared<const router::ItemAssignment>(router::ItemAssignment::replicated(workers));
    case ItemPlacement::hash:
    case ItemPlacement::automatic:
      return std::make_shared<const router::ItemAssignment>(workers);
    case ItemPlacement::planned:
      return s.places;
    case ItemPlacement::hot_and_cold:
      break;
  }
  router::ItemAssignment::Listed listed;
  const std::uint32_t hot = s.replicated > 0 ? s.replicated : s.items / 20 + 1;
  for (std::uint32_t i = 0; i < hot; ++i) listed[WorldData::item_id(i)] = placement::everywhere;
  if (s.placed > 0)
    for (std::uint32_t i = s.placed; i < s.items; ++i) listed[WorldData::item_id(i)] = placement::nowhere;
  return std::make_shared<const router::ItemAssignment>(workers, std::move(listed));
}

// Returns how many items a snapshot of the catalog may have computed. One with all items is kept, because the
// searches of a generator need its whole index.
std::size_t snapshot_items(const Scenario& s) {
  return std::max<std::size_t>(65'536, s.served ? s.served->items.size() + 1 : 0);
}

NameContext name_context(const Scenario& s) {
  if (s.served) return s.served->router.names;
  return {Cluster::models[0], "toy pages of " + std::to_string(s.page_tokens)};
}

std::vector<NodeId> without(const std::vector<NodeId>& nodes, NodeId node) {
  std::vector<NodeId> others = nodes;
  std::erase(others, node);
  return others;
}

}  // namespace

Cluster::Cluster(const Scenario& scenario, Violations& violations)
    : scenario_(scenario),
      violations_(violations),
      world_(world_options(scenario)),
      form_(prompt_form(world_, scenario)),
      names_(name_context(scenario)),
      catalogs_(
          world_,
          [this](const std::string& model_version, std::span<const Token> tokens) {
            return router::BlockNames(form_, {model_version, names_.layout_version}).item(tokens);
          },
          names_max, snapshot_items(scenario)),
      coordination_(mix(scenario.seed, 7), {200}, {2'000}, {300'000}),
      random_(scenario.seed, 11),
      host_(
          metrics_,
          [this](LogLevel level, std::string_view actor, std::string_view event,
                 std::span<const LogField> fields) {
            if (on_log) on_log(level, actor, event, fields);
            if (on_difference && (event == "answer_differs" || event == "recomputation_differs"))
              on_difference(actor, event);
          },
          sim_options()) {
  for (std::uint32_t model = 1; model < scenario.models; ++model)
    other_versions_.push_back("other" + std::to_string(model));
  if (scenario.hardware) cost_.emplace(scenario.hardware->device, scenario.hardware->shape);
  if (scenario.processors > 0 && scenario.hardware)
    charge_.emplace(scenario.hardware->device.host, scenario.hardware->shape.kv_token_bytes());
  host_.network().set_default(scenario.link);
  for (std::uint32_t i = 0; i < scenario.routers; ++i) routers_.push_back(scenario.router(i));
  for (std::uint32_t i = 0; i < scenario.cache_metas; ++i) cache_metas_.push_back(scenario.cache_meta(i));
  for (std::uint32_t i = 0; i < scenario.workers; ++i) workers_.push_back(scenario.worker(i));
  places_ = scenario.served ? scenario.served->router.places : item_places(scenario, workers_);
  for (NodeId id = 1; id <= scenario.nodes(); ++id) add_node(id);
}

Cluster::~Cluster() { host_.stop(); }

// Actors of a node exchange messages immediately and in order, as served; clients run on the same machine.
SimOptions Cluster::sim_options() {
  SimOptions options{.seed = scenario_.seed,
                     .actor_ids = actor_ids(),
                     .latency_min = scenario_.link.latency_min,
                     .latency_max = scenario_.link.latency_max};
  if (!scenario_.served) return options;
  options.latency_min = options.latency_max = options.local_min = options.local_max = {0};
  options.in_order = true;
  options.processors = scenario_.processors;
  options.step_takes = [this](const Address& actor, const Event& event) {
    return charge_ ? charge_->step(actor.node, event) : Duration{0};
  };
  return options;
}

void Cluster::add_node(NodeId id, bool joins) {
  Node& node = nodes_[id];
  node.id = id;
  node.is_router = std::ranges::count(routers_, id) > 0;
  node.is_cache_meta = std::ranges::count(cache_metas_, id) > 0;
  node.is_worker = joins || std::ranges::count(workers_, id) > 0;
  node.disk = std::make_unique<SimDisk>(disk_pages);
  host_.add_process(id, [this, &node](Incarnation incarnation) { return start_process(node, incarnation); });
}

// ---- processes ----

std::vector<ActorSpec> Cluster::start_process(Node& node, Incarnation incarnation) {
  std::vector<ActorSpec> actors;
  node.disturbed = host_.now();
  node.others.clear();
  node.others.resize(scenario_.models - 1);
  if (node.is_worker) {
    node.pages = std::make_unique<Pages>(scenario_.pages, scenario_.page_tokens);
    registry_.put(node.id, incarnation, node.pages.get());
    actors.push_back(make_kv_worker(node, incarnation));
    actors.push_back(make_inference(node, incarnation));
    actors.push_back(make_allocator(node));
  }
  if (node.is_cache_meta) actors.push_back(make_cache_meta(node, incarnation));
  if (node.is_router) actors.push_back(make_router(node, incarnation));
  for (std::uint32_t model = 1; model < scenario_.models; ++model) {
    if (node.is_worker) actors.push_back(make_inference(node, incarnation, model));
    if (node.is_router) actors.push_back(make_router(node, incarnation, model));
  }
  return actors;
}

ActorSpec Cluster::make_router(Node& node, Incarnation incarnation, std::uint32_t model) {
  FeatureOptions options{.node = node.id,
                         .seed = mix(scenario_.seed, actor_ids().number(node.id, model), 21),
                         .model_version = first_version(model),
                         .own_keys = own_keys(model),
                         .expiry = scenario_.expiry,
                         .now = [this] { return host_.now(); }};
  // Profiles are in memory, as served, and the cost of finding them is host work.
  if (scenario_.served) {
    const double wait_us = charge_ ? scenario_.hardware->device.host.wait_us : 0;
    options.latency_min = options.latency_max = {static_cast<std::int64_t>(wait_us)};
  }
  coordination_.forget(node.id);
  auto feature =
      std::make_unique<SimFeaturePort>(std::move(options), world_, catalogs_, coordination_, node.features);
  router::RouterConfig c = scenario_.served ? scenario_.served->router : simulated_router(node);
  c.node = node.id;
  c.incarnation = incarnation;
  c.cache_metas = cache_metas_;
  c.model_version = c.names.model_version = first_version(model);
  if (c.coordinate) c.catalog_version = world_.options().catalogs.front();
  c.workers = workers_;
  c.routers = without(routers_, node.id);
  if (scenario_.changes_members()) {
    c.members = members();
    c.members_every = {members_heartbeats * c.heartbeat.us};
  }
  c.places = places_;
  auto core = std::make_unique<router::RouterCore>(c);
  SimFeaturePort* port = feature.get();
  (model == 0 ? node.router : node.others[model - 1].router) = core.get();
  (model == 0 ? node.feature : node.others[model - 1].feature) = std::move(feature);
  return {{actor_ids().number(node.id, model), Role::router},
          wrap_for_model(std::move(core), model),
          port,
          feature_connections};
}

ActorSpec Cluster::make_cache_meta(Node& node, Incarnation incarnation) {
  coordination_.forget(node.id);
  node.coordination =
      std::make_unique<CoordinationPort>(node.id, coordination_, [this] { return host_.now(); });
  actors::CacheMetaConfig c = scenario_.served ? scenario_.served->cache_meta : drawn_cache_meta();
  c.node = node.id;
  c.incarnation = incarnation;
  c.kv_nodes = workers_;
  if (scenario_.changes_members()) {
    c.members = members();
    c.members_every = {members_heartbeats * c.heartbeat.us};
  }
  c.routers = routers_;
  c.actor_ids = actor_ids();
  auto core = std::make_unique<actors::CacheMetaCore>(c);
  node.cache_meta = core.get();
  return {{node.id, Role::cache_meta}, std::move(core), node.coordination.get(), coordination_slots};
}

ActorSpec Cluster::make_kv_worker(Node& node, Incarnation incarnation) {
  node.store = std::make_unique<SimStorePort>(
      SimStoreOptions{.node = node.id,
                      .seed = mix(scenario_.seed, node.id, 22),
                      .page_bytes = page_bytes(),
                      .counts_pages = scenario_.models > 1,
                      .pulls_take_time = !scenario_.pulls_stall,
                      .now = [this] { return host_.now(); },
                      .local_now = [this, id = node.id] { return host_.local_time(id); },
                      .on_struck =
                          [this](NodeId id, FaultKind kind) {
                            if (on_struck) on_struck(id, kind);
                          }},
      *node.pages, *node.disk, host_.network(), registry_, node.transfer, violations_);
  actors::KvWorkerConfig c = scenario_.served ? scenario_.served->kv_worker : drawn_kv_worker();
  c.node = node.id;
  c.incarnation = incarnation;
  c.cache_metas = cache_metas_;
  c.pulls = scenario_.workers > 1 || scenario_.changes_members();
  if (scenario_.page_rows > 0) c.rows.borrowers = {node.id};
  if (scenario_.models > 1) c.models = numbers({node.id});
  auto core = std::make_unique<actors::KvWorkerCore>(c);
  node.kv_worker = core.get();
  return {{node.id, Role::kv_worker}, std::move(core), node.store.get(), store_slots};
}

ActorSpec Cluster::make_inference(Node& node, Incarnation incarnation, std::uint32_t model) {
  ComputeOptions options;
  options.node = node.id;
  options.family = &family(model);
  options.model_version = first_version(model);
  options.had_tokens = [this](std::string_view item, std::string_view catalog,
                              std::span<const Token> tokens) {
    const std::size_t mark = form_.item.size();  // before the item's own tokens, which begin with others
    const bool has_mark =
        mark > 0 && tokens.size() > mark && std::ranges::equal(tokens.first(mark), form_.item);
    return world_.had_tokens(item, catalog, tokens.subspan(has_mark ? mark : 0));
  };
  options.find_catalog = [this, model](const std::string& catalog) {
    return world_.has_catalog(catalog) ? catalogs_.at(catalog, first_version(model)) : nullptr;
  };
  if (form_.prototype_set)
    options.prototypes = [this](const std::string& model) {
      return model == form_.prototype_set->model_version() ? form_.prototype_set->checksum() : "";
    };
  options.load_time = {500'000};
  options.verify_on_read = scenario_.verify_on_read;
  options.struck = &struck_;
  options.page_rows = scenario_.page_rows;
  if (scenario_.shards) options.shard_rows = static_cast<std::uint32_t>(world_.rows());
  options.model_exists = [this, model](const std::string& version) {
    return model == 0 ? std::ranges::count(models, version) > 0 : version == first_version(model);
  };
  options.layers = unit_costs().layers;
  if (!charge_) options.slots = scenario_.slots;  // otherwise processors are shared
  options.batch_time = [this](const placement::Pass& pass, std::uint64_t pulled) {
    return batch_time(pass, pulled);
  };
  if (charge_) {
    options.beside = [this, id = node.id](const RunBatch& batch, Duration still) {
      return charge_->batch(id, batch, still);
    };
    options.split_share = scenario_.hardware->device.split_share;
  }
  options.now = [this] { return host_.now(); };
  options.on_poison = [this](NodeId id, std::uint64_t content) {
    if (on_poison) on_poison(id, content);
  };
  auto compute =
      std::make_unique<SimComputePort>(std::move(options), *node.pages, node.device, poisons_, violations_);
  actors::InferenceConfig c = scenario_.served ? scenario_.served->inference : drawn_inference();
  c.node = node.id;
  c.incarnation = incarnation;
  c.model_version = first_version(model);
  c.routers = routers_;
  auto core = std::make_unique<actors::InferenceCore>(c);
  SimComputePort* port = compute.get();
  (model == 0 ? node.inference : node.others[model - 1].inference) = core.get();
  (model == 0 ? node.compute : node.others[model - 1].compute) = std::move(compute);
  return {{actor_ids().number(node.id, model), Role::inference_worker},
          wrap_for_model(std::move(core), model),
          port,
          scenario_.slots + 2};
}

std::vector<double> Cluster::shares() const {
  return area_shares({.item = scenario_.item_share, .row = scenario_.row_share}, scenario_.page_rows > 0);
}

ActorSpec Cluster::make_allocator(Node& node) {
  actors::AllocatorConfig c;
  if (scenario_.served) c = scenario_.served->allocator;
  c.node = node.id;
  c.pages = scenario_.pages;
  if (!scenario_.served) c.shares = shares();
  if (!scenario_.split.empty()) {
    c.policy = placement::make_experiment_split(scenario_.split, {});
    c.first = c.shares.size() > index_of(PoolArea::row) ? index_of(PoolArea::row) : 0;
    c.window = scenario_.split_window;
  }
  return {{node.id, Role::allocator}, std::make_unique<actors::AllocatorCore>(c)};
}

// Without hardware, an operation is a new token and a byte is a reused token.
placement::UnitCosts Cluster::unit_costs() const {
  return scenario_.hardware ? placement::unit_costs(scenario_.hardware->shape)
                            : placement::UnitCosts{.token_bytes = 1};
}

placement::Pace Cluster::pace() const {
  if (scenario_.hardware) return {.us_per_operation = scenario_.us_per_token / unit_costs().token_operations};
  return {scenario_.us_per_token, scenario_.us_per_token * reused_token_cost,
          static_cast<double>(scenario_.batch_overhead.us)};
}

// Hardware times come from the cost model, in which each phase takes the slower of arithmetic and memory.
Duration Cluster::batch_time(const placement::Pass& pass, std::uint64_t pulled_tokens) const {
  if (cost_) {
    const auto reused = static_cast<double>(pass.reused_tokens);
    const double token_bytes = cost_->kv_token_bytes(), host = scenario_.host_bytes_per_us;
    const double brought_us = host > 0 ? reused * token_bytes / host : 0;
    const double pulled_bytes = scenario_.pulls_stall ? static_cast<double>(pulled_tokens) * token_bytes : 0;
    return {static_cast<std::int64_t>(std::max(cost_->prefill_us(pass), brought_us) +
                                      pulled_bytes / scenario_.link.bytes_per_us)};
  }
  return {static_cast<std::int64_t>(pace().us(unit_costs().of(pass)))};
}

std::uint64_t Cluster::page_bytes() const {
  const std::uint64_t per_token = scenario_.hardware
                                      ? static_cast<std::uint64_t>(scenario_.hardware->shape.kv_token_bytes())
                                      : page_bytes_per_token;
  return per_token * scenario_.page_tokens;
}

void Cluster::kill(NodeId id) {
  if (!host_.alive(id)) return;
  Node& node = nodes_.at(id);
  host_.kill(id);
  registry_.remove(id);
  node.router = nullptr;
  node.cache_meta = nullptr;
  node.kv_worker = nullptr;
  node.inference = nullptr;
  for (AdditionalModel& other : node.others) other.router = nullptr, other.inference = nullptr;
  node.disturbed = host_.now();
  ++node.kills;
  for (auto& [other, peer] : nodes_) {
    if (other == id) continue;
    const Duration delay = random_.between(loss_report_min, loss_report_max);
    host_.at(host_.now() + delay, [this, other = other, id] { host_.announce_lost(other, id); });
  }
}

void Cluster::restart(NodeId id) {
  if (!host_.alive(id) && !nodes_.at(id).gone) host_.restart(id);
}

// ---- members ----

std::vector<Member> Cluster::file() const {
  std::vector<Member> members;
  for (const NodeId node : workers_) members.push_back({node, "w" + std::to_string(node), "host", 1});
  return members;
}

// Reads the members like an operator, whose connection to the coordination store is never cut, or like a
// starting process, which waits until it is not.
ReadMembers Cluster::members() {
  const auto known = std::get<CoordinationReply>(
      coordination_.state().ask(host_.now().us, {ReadKey{std::string(members_key)}}));
  return {std::get<ClusterMembers>(parse_members(known.value)), known.revision};
}

Revision Cluster::change_members(const std::function<MembersChange(ClusterMembers)>& change) {
  const ReadMembers known = members();
  const MembersChange next = change(known.members);
  const WriteKey write{std::string(members_key), members_text(std::get<ClusterMembers>(next)),
                       known.revision};
  return std::get<CoordinationReply>(coordination_.state().ask(host_.now().us, {write})).revision;
}

void Cluster::join(NodeId id) {
  change_members([&](ClusterMembers members) {
    members.last = id - 1;
    return arrived(std::get<ClusterMembers>(
                       with_joined(std::move(members), file(), {0, "w" + std::to_string(id), "host", 1})),
                   id);
  });
  add_node(id, true);
}

Revision Cluster::begin_leave(NodeId id) {
  return change_members([&](ClusterMembers members) {
    return with_leaving(std::move(members), file(), "w" + std::to_string(id));
  });
}

void Cluster::end_leave(NodeId id) {
  change_members([&](ClusterMembers members) -> MembersChange {
    return troupe::without(std::move(members), file(), id);
  });
  nodes_.at(id).gone = true;
  kill(id);
}

void Cluster::pause(NodeId id) {
  nodes_.at(id).disturbed = host_.now();
  host_.pause(id);
}

void Cluster::resume(NodeId id) {
  nodes_.at(id).disturbed = host_.now();
  host_.resume(id);
}

// ---- state for judges ----

Versions Cluster::versions(std::uint32_t model) const {
  const auto& keys = const_cast<SimCoordination&>(coordination_).state().keys();
  const auto at = keys.find(own_keys(model) + "versions");
  const Versions first{0, first_version(model), world_.options().catalogs.front(), "", ""};
  if (at == keys.end()) {
    const auto& before = coordination_.keys_before_loss();
    const auto lost = before.find(own_keys(model) + "versions");
    if (lost == before.end()) return first;
    return router::parse_versions(lost->second.revision, lost->second.value).value_or(first);
  }
  return router::parse_versions(at->second.revision, at->second.value).value_or(first);
}

void Cluster::follow_catalog() {
  const std::string catalog = versions().catalog_version;
  if (catalog != world_.present()) world_.set_present(catalog);
}

const actors::CacheMetaCore* Cluster::leader() const {
  const actors::CacheMetaCore* leader = nullptr;
  for (const auto& [id, node] : nodes_)
    if (node.cache_meta && node.cache_meta->leads(host_.local_time(id)) &&
        (!leader || node.cache_meta->token() > leader->token()))
      leader = node.cache_meta;
  return leader;
}

bool Cluster::in_phase(Phase phase) const {
  if (phase == Phase::leaderless) return leader() == nullptr;
  const auto any = [&](auto&& test) {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) { return test(entry.second); });
  };
  switch (phase) {
    case Phase::features:
      return any([](const Node& n) { return n.router && n.router->in_features() > 0; });
    case Phase::lookup:
      return any([](const Node& n) { return n.router && n.router->in_lookup() > 0; });
    case Phase::retry:
      return any([](const Node& n) { return n.router && n.router->retries_in_flight() > 0; });
    case Phase::swap:
      return any([](const Node& n) { return n.router && n.router->swapping(); }) ||
             !versions().next_model.empty();
    case Phase::blocks:
      return any([](const Node& n) { return n.inference && n.inference->acquiring() > 0; });
    case Phase::compute:
      return any([](const Node& n) { return n.inference && n.inference->running() > 0; });
    case Phase::pull:
      return any([](const Node& n) { return n.kv_worker && n.kv_worker->pulls_running() > 0; });
    case Phase::load:
      return any([](const Node& n) { return n.kv_worker && n.kv_worker->loads_running() > 0; });
    case Phase::making:
      return any([](const Node& n) { return n.kv_worker && n.kv_worker->pending() > 0; });
    case Phase::inventory:
      return any([](const Node& n) { return n.cache_meta && n.cache_meta->syncing() > 0; });
    default:
      break;
  }
  return !any([](const Node& n) {
    return (n.router && n.router->in_features() + n.router->in_lookup() + n.router->executing() > 0) ||
           (n.inference && n.inference->tasks() > 0);
  });
}

bool Cluster::works_in_background() const {
  return std::ranges::any_of(nodes_, [](const auto& entry) {
    return std::ranges::any_of(entry.second.routers(), [](const auto* router) {
      return router->precomputing() || router->verifying();
    });
  });
}

std::string Cluster::check_bounds() const {
  for (const auto& [id, node] : nodes_) {
    const auto named = [id = id](const char* actor, const std::string& fault) {
      return std::string(actor) + "@" + std::to_string(id) + ": " + fault;
    };
    for (const auto* router : node.routers())
      if (auto fault = router->check_bounds(); !fault.empty()) return named("router", fault);
    if (node.cache_meta)
      if (auto fault = node.cache_meta->check_bounds(); !fault.empty()) return named("cache_meta", fault);
    for (const auto* inference : node.inferences())
      if (auto fault = inference->check_bounds(); !fault.empty()) return named("inference_worker", fault);
    if (!node.kv_worker) continue;
    if (auto fault = node.kv_worker->check_bounds(); !fault.empty()) return named("kv_worker", fault);
    if (auto fault = node.kv_worker->pool().check_invariants(); !fault.empty())
      return named("kv_worker", fault);
  }
  return "";
}

}  // namespace troupe::sim
