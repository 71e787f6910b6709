// Builds the actors of one process from its settings: models, stores, page pool, and the router,
// cache-meta and workers. Adds them to a host, which runs them in real time or in a simulation.
#include "deploy/node/local_node.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "actors/inference/compute_port.h"
#include "actors/inference/paced_table_port.h"
#include "deploy/data/device_option.h"
#include "deploy/data/split_policies.h"
#include "deploy/models/cost_shape.h"
#include "deploy/models/engine.h"
#include "deploy/models/model_prototypes.h"
#include "deploy/node/core_configs.h"
#include "deploy/node/feature_ownership.h"
#include "deploy/node/item_placement.h"
#include "deploy/node/membership.h"
#include "deploy/node/model_versions.h"
#include "deploy/node/store_reports.h"
#include "kernels/base/check.h"
#include "placement/split/split_choice.h"
#include "runtime/coordination/incarnation.h"
#include "runtime/host/model_metrics.h"
#include "runtime/store/store_cache.h"
#include "runtime/store/store_rows.h"
#include "runtime/transfer/ucx_transport.h"

namespace troupe::deploy {

namespace {

constexpr std::uint32_t router_executors = 3, cache_meta_executors = 1, store_executors = 2,
                        scrub_executors = 1;

std::int64_t wall_clock_us() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
}

Incarnation new_incarnation(Coordination& coordination, const NodeRoles& place) {
  const auto next = next_incarnation(coordination, place.node, wall_clock_us(), place.seen);
  if (const auto* refusal = std::get_if<Refusal>(&next))
    throw std::runtime_error(refusal->where + ": " + refusal->what + "; expected " + refusal->expected);
  return std::get<Incarnation>(next);
}

// Saves, loads and the scrubber have executors of their own: each pull may take as long as a lease.
std::uint32_t block_executors(const actors::KvWorkerConfig& config) {
  return store_executors + scrub_executors +
         (config.pulls ? static_cast<std::uint32_t>(config.pulling.running_max) : 0);
}

std::vector<double> shares_of(const Config& config, bool has_rows) {
  return area_shares([&](std::string_view setting) { return config.real(std::string(setting).c_str()); },
                     has_rows);
}

std::unique_ptr<PageArena> make_arena(std::size_t page_bytes, std::size_t pages) {
  try {
    return std::make_unique<PageArena>(page_bytes, pages);
  } catch (const std::bad_alloc&) {
    throw ConfigError("pool.memory: " + std::to_string(pages) + " pages of " + std::to_string(page_bytes) +
                      " bytes cannot be mapped; expected a pool that fits this machine's memory");
  }
}

// `damage` gets the error text if the coordination file was set aside.
std::unique_ptr<Coordination> make_coordination(const Config& config, const NodeRoles& place,
                                                std::string& damage) {
  if (!place.is_alone() || !config.text("cluster.coordination").empty()) return etcd_coordination(config);
  const std::filesystem::path file =
      std::filesystem::path(required_text(config, "node.data_dir")) / "coordination";
  try {
    return std::make_unique<FileCoordination>(file);
  } catch (const CoordinationDamage& error) {
    if (config.text("store.on_damage") != "start")
      throw CoordinationDamage(std::string(error.what()) + ", or set store.on_damage to start");
    damage = error.what();
    set_coordination_aside(file);
    return std::make_unique<FileCoordination>(file);
  }
}

// Interval at which a router checks whether its profiles and items are available.
constexpr Duration features_asked_every{1'000'000};

// Interval at which cores read the members again.
constexpr std::int64_t heartbeats_to_members = 5;

// Pace that routers assume for a worker without measurements, if router.device is empty.
constexpr double first_us_per_token = 20;

router::Policy serving_policy(const std::string& name) {
  if (const auto policy = router::find_policy(name)) return *policy;
  throw ConfigError("router.policy is \"" + name + "\"; expected " + router::policy_names());
}

router::TenantWeights tenant_weights(const std::string& text) {
  try {
    return router::parse_tenant_weights(text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(std::string("router.tenant_weights: ") + error.what());
  }
}

// The cache keeps rows in pages of the pool.
std::shared_ptr<actors::RowCache> make_row_cache(const ServedModel& model, PageArena& arena) {
  const std::size_t row_bytes = std::size_t{model.facts.table_columns} * sizeof(float);
  if (row_bytes == 0) return nullptr;
  if (row_bytes > arena.page_bytes())
    throw ConfigError("pool.page_tokens is " + std::to_string(model.config.integer("pool.page_tokens")) +
                      ", whose pages have " + std::to_string(arena.page_bytes()) +
                      " bytes; expected at least the " + std::to_string(row_bytes) +
                      " of an embedding row, with model.tables: " + model.config.text("model.tables"));
  return std::make_shared<actors::RowCache>(arena, model.facts.table_columns);
}

bool is_sharded(const ServedModel& model) {
  return model.facts.table_columns > 0 && model.config.text("model.tables") == "sharded";
}

std::shared_ptr<actors::TableShards> make_shards(const ServedModel& model, PageArena& arena) {
  return is_sharded(model) ? std::make_shared<actors::TableShards>(arena, model.facts.table_columns)
                           : nullptr;
}

// Applies model.table_bandwidth, the shards (if any) and the row cache to a table, in this order.
WrapTable through(const std::shared_ptr<actors::RowCache>& rows,
                  const std::shared_ptr<actors::TableShards>& shards, const Config& config,
                  const std::string& model_version) {
  if (!rows) return {};
  const auto bandwidth = static_cast<double>(config.size_bytes("model.table_bandwidth"));
  return [rows, shards, bandwidth, model_version](std::shared_ptr<kernels::EmbeddingTable> table) {
    if (bandwidth > 0) table = std::make_shared<actors::PacedTable>(std::move(table), bandwidth);
    if (shards) table = shards->sharded(std::move(table), model_version, "items");
    return rows->cached(std::move(table));
  };
}

// minimum additional savings, as a fraction, before the split changes
constexpr double split_gain_min = 0.01;

// Returns the policy of pool.split; null if the setting is empty.
std::shared_ptr<placement::SplitPolicy> split_of(const Config& config) {
  const std::string &name = config.text("pool.split"), &file = config.text("pool.split_trained");
  if (name.empty()) return nullptr;
  if (!placement::knows_split(name))
    throw ConfigError("pool.split is \"" + name + "\"; expected " + placement::split_names());
  if (!placement::learned_split(name)) return placement::make_split(name, {.better = split_gain_min});
  if (file.empty())
    throw ConfigError(
        "pool.split_trained is empty; expected a file that troupe train wrote, for pool.split: " + name);
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

placement::DeviceProfile serving_device(const std::string& device) {
  try {
    return device_of(device);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(std::string("router.device: ") + error.what());
  }
}

// Encryption keys of pages travel over the links, so the links must be encrypted, too.
bool encrypts_pages(const Config& config) {
  const std::string& said = config.text("transfer.encryption");
  const bool links_are = !config.text("cluster.certificates").empty();
  if (said == "on" && !links_are)
    throw ConfigError(
        "cluster.certificates is empty; expected a folder with certificates, because transfer.encryption: on "
        "sends its keys over these connections");
  return said != "off" && links_are;
}

}  // namespace

std::size_t pages_of(const Config& config, std::size_t page_bytes) {
  const auto memory = static_cast<std::size_t>(config.size_bytes("pool.memory"));
  const std::size_t pages = std::min<std::size_t>(memory / page_bytes, 0xFFFF'FFFF);
  if (pages == 0)
    throw ConfigError("pool.memory is " + std::to_string(memory) +
                      " bytes, less than one page; expected at least " + std::to_string(page_bytes) +
                      " bytes for this model");
  return pages;
}

void make_data_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::create_directories(folder, ignored))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
}

LocalNode::LocalNode(Config config, NodeRoles place, MetricRegistry* metrics, const ModelFamilies& families,
                     LogSink log, std::vector<NamedModel> models)
    : config_(std::move(config)),
      roles_(std::move(place)),
      metrics_(metrics),
      families_(families),
      log_(std::move(log)),
      executors_(executors_of(config_)) {
  if (models.empty())
    models.push_back({"", config_});
  else
    reject_single_model_settings(config_, models, roles_.is_alone());
  models_ = read_models(std::move(models), families_, roles_.node);
  const std::filesystem::path folder = required_text(config_, "node.data_dir");
  if (roles_.routers.size() > 1 && keeps_features())
    throw ConfigError("features.store is empty; expected a Redis, because there are several routers");
  make_data_folder(folder);
  open_store(folder);
  if (roles_.worker) open_worker();
  for (const auto& model : models_) model->opened = {};  // a node that is no worker drops the weights
  coordination_ = make_coordination(config_, roles_, coordination_damage_);
  incarnation_ = new_incarnation(*coordination_, roles_);
  if (roles_.worker) open_transport();
  if (roles_.router)
    for (const auto& model : models_) open_router(*model);
  if (roles_.cache_meta) cache_meta_port_ = std::make_unique<CoordinationPort>(*coordination_, nullptr);
}

// A damaged store with profiles and items stops the start by default: only its owner may decide to
// lose them. A damaged store with blocks alone is replaced, because blocks can be computed again.
void LocalNode::open_store(const std::filesystem::path& folder) {
  if (keeps_features() && !has_names()) {
    store_ = std::make_unique<Store>(folder, store_options(config_));
    report_store_health(log_, metrics_, *store_);
    return;
  }
  if (keeps_features())
    for (const auto& model : models_) {
      const std::filesystem::path own = required_text(model->config, "node.data_dir");
      make_data_folder(own);
      if (std::filesystem::equivalent(own, folder))
        throw ConfigError("model " + model->name + " has its data in " + own.string() +
                          ", the same as the node itself; expected a folder of its own");
      model->store = std::make_unique<Store>(own, store_options(model->config));
      report_store_health(log_, metrics_, *model->store);
    }
  if (roles_.worker) {
    OpenedCache opened = open_cache(folder);
    store_ = std::move(opened.store);
    store_damage_ = std::move(opened.damage);
  }
}

void LocalNode::open_worker() {
  std::size_t page_bytes = 0;
  for (const auto& model : models_) page_bytes = std::max(page_bytes, model->facts.layout.page_bytes());
  arena_ = make_arena(page_bytes, pages_of(config_, page_bytes));
  blocks_ = std::make_unique<BlockStorePort>(
      *store_, *arena_, shared_name_context(models_, page_bytes),
      static_cast<std::uint64_t>(config_.size_bytes("pool.store_bytes_max")));
  for (const auto& model : models_) open_engine(*model);
}

void LocalNode::open_engine(ServedModel& model) {
  if ((model.opened.make_assets || model.prompt.generates()) && !roles_.router)
    throw ConfigError(
        "this node has no router; expected one, because the model computes with the catalog, which routers "
        "keep");
  const auto rows = make_row_cache(model, *arena_);
  const auto shards = make_shards(model, *arena_);
  Engine engine = model.opened.engine(through(rows, shards, model.config, model.names.model_version));
  if (model.prototypes)
    engine.executor = make_prototype_executor(model.config, std::move(engine.executor), model.prototypes,
                                              through(rows, {}, model.config, {}));
  model.compute = std::make_unique<actors::ComputePort>(actors::ComputePort::Options{
      .model = {std::move(engine.executor), std::move(model.opened.make_assets)},
      .model_version = model.names.model_version,
      .arena = *arena_,
      .slots = executors_of(model.config),
      .make_pages = engine.make_pages,
      .loader = version_loader(families_, model.config,
                               [rows, shards, config = model.config](const std::string& version) {
                                 return through(rows, shards, config, version);
                               }),
      .find_catalog =
          [&model](const std::string& version) {
            return model.features ? model.features->catalog_at(version) : nullptr;
          },
      .rows = rows,
      .shards = shards});
}

void LocalNode::open_transport() {
  if (!roles_.is_alone()) {  // another worker may join
    TROUPE_CHECK(metrics_, "a node that pulls needs metrics");
    transport_ = std::make_unique<UcxTransport>(UcxOptions{.transports = config_.text("transfer.transports"),
                                                           .devices = config_.text("transfer.devices"),
                                                           .sealed = encrypts_pages(config_)},
                                                incarnation_, *arena_, *metrics_);
  }
  kv_port_ = std::make_unique<KvWorkerPort>(transport_.get(), *blocks_, *arena_);
}

void LocalNode::open_router(ServedModel& model) {
  const ModelFingerprints present = made_for(model.names.model_version, model.vocabulary, model.prompt);
  CachedFeatureOptions cached = cached_feature_options(model.config);
  cached.slot = router_executors;  // one beyond the router's own lanes
  auto store = open_features(
      model.config, model.store ? model.store.get() : store_.get(), feature_limits(model.config, model.facts),
      router_executors + 2,  // and one for find_profile
      [names = router::BlockNames(model.prompt, model.names)](std::span<const Token> tokens) {
        return names.item(tokens);
      },
      {[&model, present](const std::string& noted) {
         return describe_mismatch(noted, present, model.config);
       },
       [this](const std::string& what) { report_loss(what); }},
      model.name);
  model.features = std::make_unique<CachedFeatures>(std::move(store), cached);
  claim_rows(*model.features, present, model.config, [this](const std::string& what) {
    const std::vector<LogField> fields{{"what", what}};
    if (log_) log_(LogLevel::warning, "main", "feature_rows_without_model", fields);
  });
  const std::string own_keys = model.name.empty() ? "" : "model/" + model.name + "/";
  model.router_port = std::make_unique<CoordinationPort>(*coordination_, model.features.get(), own_keys);
}

// Redis lost writes that it had acknowledged. The data must be imported again.
void LocalNode::report_loss(const std::string& what) const {
  if (metrics_) metrics_->record(Metric::features_lost, 1);
  const std::vector<LogField> fields{
      {"why", what}, {"expected", "a Redis that keeps acknowledged writes; import the data again"}};
  if (log_) log_(LogLevel::error, "main", "features_lost", fields);
}

ProfilePointer LocalNode::find_profile(const ServedModel& model, const std::string& tenant,
                                       const std::string& user) {
  const std::string key = user_key(tenant, user);
  return model.features->find_users({&key, 1}, router_executors + 1).at(0).user;
}

LocalNode::~LocalNode() = default;

std::vector<NodeId> LocalNode::actor_ids(std::span<const NodeId> nodes) const {
  std::vector<NodeId> ids;
  for (const NodeId node : nodes)
    for (const auto& model : models_) ids.push_back(actor_ids().number(node, model->place));
  return ids;
}

std::vector<NodeId> LocalNode::models_with_row_cache() const {
  std::vector<NodeId> actor_ids;
  for (const auto& model : models_)
    if (model->facts.table_columns > 0) actor_ids.push_back(model->number);
  return actor_ids;
}

std::vector<double> LocalNode::shares() const { return shares_of(config_, !models_with_row_cache().empty()); }

std::vector<Address> LocalNode::actors(const NodeRoles& of) const {
  std::vector<Address> list;
  for (const NodeId number : actor_ids(of.routers)) list.push_back({number, Role::router});
  for (const NodeId node : of.cache_metas) list.push_back({node, Role::cache_meta});
  for (const NodeId node : of.workers)
    for (const Role role : {Role::kv_worker, Role::allocator}) list.push_back({node, role});
  for (const NodeId number : actor_ids(of.workers)) list.push_back({number, Role::inference_worker});
  return list;
}

std::string LocalNode::render_metrics(const MetricRegistry& own, MetricForm form) const {
  std::vector<ModelMetrics> models;
  for (const auto& model : models_)
    if (has_names()) models.push_back({model->name, &model->metrics});
  return render(own, models, form);
}

void LocalNode::add_to(Host& host) {
  if (roles_.router)
    for (const auto& model : models_)
      host.add({{model->number, Role::router},
                model->as_model_actor(make_router(*model), actor_ids()),
                model->router_port.get(),
                router_executors});
  if (roles_.cache_meta)
    host.add(
        {{roles_.node, Role::cache_meta}, make_cache_meta(), cache_meta_port_.get(), cache_meta_executors});
  if (roles_.worker) add_worker_to(host);
}

void LocalNode::add_worker_to(Host& host) {
  const NodeId node = roles_.node;
  const actors::KvWorkerConfig kv = kv_worker_config();
  host.add({{node, Role::kv_worker},
            std::make_unique<actors::KvWorkerCore>(kv),
            kv_port_.get(),
            block_executors(kv)});
  for (const auto& model : models_)
    host.add({{model->number, Role::inference_worker},
              model->as_model_actor(make_inference_worker(*model), actor_ids()),
              model->compute.get(),
              model->compute->slots()});
  host.add({{node, Role::allocator}, make_allocator()});
}

std::unique_ptr<Core> LocalNode::make_router(const ServedModel& model) const {
  router::RouterConfig c = router_config(model, roles_);
  c.incarnation = incarnation_;
  c.members = roles_.members;
  if (!roles_.is_alone()) c.members_every = {heartbeats_to_members * c.heartbeat.us};
  return std::make_unique<router::RouterCore>(c);
}

router::RouterConfig router_config(const ServedModel& model, const NodeRoles& place) {
  const Config& config = model.config;
  router::RouterConfig c;
  c.node = place.node;
  c.cache_metas = place.cache_metas;
  c.workers = place.workers;
  c.joined = place.joined;
  for (const NodeId router : place.routers)
    if (router != place.node) c.routers.push_back(router);
  c.heartbeat = {config.duration_us("cluster.heartbeat")};
  c.reports_uses_elsewhere = !config.text("pool.split").empty();
  // the model of this process, whatever version was served before
  c.model_version = model.names.model_version;
  c.form = model.prompt;
  c.names = model.names;
  c.policy = serving_policy(config.text("router.policy"));
  if (c.policy.repair().prototypes && !model.prototypes)
    throw ConfigError("router.policy is " + c.policy.name() +
                      " and model.prototypes is empty; expected a prototypes file");
  const auto number = [&](const char* setting) {
    return static_cast<std::uint32_t>(config.integer(setting));
  };
  c.limits.candidates_max = number("router.candidates_max");
  c.limits.width_max = number("router.width_max");
  if (model.facts.limits.width_max > 0)
    c.limits.width_max = std::min(c.limits.width_max, model.facts.limits.width_max);
  c.limits.completion_tokens_max = number("router.completion_tokens_max");
  c.limits.score_items_max = number("router.score_items_max");
  c.limits.score_labels_max = number("router.score_labels_max");
  c.limits.request_tokens_max = number("router.request_tokens_max");
  c.limits.history_max = number("router.history_events_max");
  c.limits.approximate = config.real("router.approximate");
  c.limits.pass_tokens_max = model.facts.pass_tokens_max;
  c.limits.token_bytes = model.facts.token_bytes;
  c.in_flight_max = static_cast<std::uint32_t>(config.integer("router.requests_in_flight_max"));
  c.tenants = {.weights = tenant_weights(config.text("router.tenant_weights")),
               .tenants_max = number("router.tenants_max"),
               .requests_max = number("router.tenant_requests_max"),
               .work_us_max = config.duration_us("router.tenant_work_max")};
  c.quantum = {config.duration_us("router.quantum")};
  c.window = {config.duration_us("router.window")};
  c.routing = {*router::find_routing(config.text("router.routing")), config.real("router.affinity")};
  c.budget = {config.duration_us("router.deadline")};
  c.budget_max = {config.duration_us("router.deadline_max")};
  c.coordinate = place.routers.size() > 1 || !config.text("model.versions").empty();
  c.features = {.every = features_asked_every, .needs_items = config.boolean("router.needs_items")};
  // Generators and models whose tokens are items have no item blocks in their prompts.
  c.precompute.on = config.boolean("pool.precompute_items") && !model.prompt.generates() &&
                    model.prompt.history_plan.empty();
  c.precompute.refresh.hot_share = config.real("pool.hot_share");
  c.places = item_places(config.text("pool.placement"), place.workers);
  const placement::ModelShape& shape = model.facts.shape;
  c.costs = placement::unit_costs(shape);
  c.pace = {.us_per_operation = first_us_per_token / c.costs.token_operations};
  c.pull_share = config.real("router.pull_share");
  c.measures_pulls = config.boolean("router.measure_pulls");
  c.shared_areas = config.boolean("router.shared_areas");
  if (const std::string& device = config.text("router.device"); !device.empty())
    c.block_pace = c.pace = placement::pace_of(serving_device(device), shape);
  return c;
}

std::unique_ptr<Core> LocalNode::make_cache_meta() const {
  actors::CacheMetaConfig c = cache_meta_config(config_, roles_);
  c.incarnation = incarnation_;
  c.actor_ids = actor_ids();
  c.members = roles_.members;
  if (!roles_.is_alone()) c.members_every = {heartbeats_to_members * c.heartbeat.us};
  return std::make_unique<actors::CacheMetaCore>(c);
}

actors::CacheMetaConfig cache_meta_config(const Config& config, const NodeRoles& place) {
  actors::CacheMetaConfig c;
  c.node = place.node;
  c.kv_nodes = place.workers;
  c.routers = place.routers;
  c.joined = place.joined;
  c.heartbeat = {config.duration_us("cluster.heartbeat")};
  c.leader_lease = {5 * c.heartbeat.us};
  c.user_popularity.window_us = c.item_popularity.window_us = config.duration_us("router.frequency_window");
  return c;
}

// Returns one part per layer, or fewer if parts would have under 1 KiB of a page.
std::uint32_t LocalNode::pull_parts() const {
  constexpr std::size_t part_bytes_min = 1'024;
  std::uint32_t layers = 2;
  for (const auto& model : models_)
    layers = std::max(layers, static_cast<std::uint32_t>(model->facts.shape.layers));
  return static_cast<std::uint32_t>(
      std::clamp<std::size_t>(arena_->page_bytes() / part_bytes_min, 2, layers));
}

// With several models, the KV-cache worker counts pages instead of tokens.
actors::KvWorkerConfig LocalNode::kv_worker_config() const {
  const auto pages = static_cast<std::uint32_t>(arena_->pages());
  actors::KvWorkerConfig c = deploy::kv_worker_config(config_, roles_, first().facts.layout, pages);
  c.incarnation = incarnation_;
  c.rows.borrowers = models_with_row_cache();
  if (config_.boolean("inference.overlap")) c.pull_parts = pull_parts();
  c.pool =
      pool_sizes(pages, has_names() ? 1 : first().facts.layout.page_tokens, split_pages(pages, shares()));
  if (!has_names()) return c;
  c.models = actor_ids({&roles_.node, 1});
  c.token_bytes = static_cast<double>(arena_->page_bytes());
  return c;
}

actors::KvWorkerConfig kv_worker_config(const Config& config, const NodeRoles& place,
                                        const kernels::PageLayout& layout, std::uint32_t pages) {
  actors::KvWorkerConfig c;
  c.node = place.node;
  c.cache_metas = place.cache_metas;
  c.heartbeat = {config.duration_us("cluster.heartbeat")};
  c.pool = pool_sizes(pages, layout.page_tokens, split_pages(pages, shares_of(config, false)));
  c.check_reads = config.real("pool.check_reads");
  c.scrub.interval = {config.duration_us("pool.scrub_interval")};
  c.scrub.cost = config.real("pool.scrub_cost");
  c.store = config.boolean("pool.store_item_blocks");
  c.pulls = !place.is_alone();
  c.token_bytes = static_cast<double>(layout.token_bytes());
  return c;
}

std::unique_ptr<Core> LocalNode::make_inference_worker(const ServedModel& model) const {
  actors::InferenceConfig c = inference_config(model, roles_);
  c.incarnation = incarnation_;
  c.overlap = c.overlap && model.compute->waits_by_layer();
  return std::make_unique<actors::InferenceCore>(c);
}

actors::InferenceConfig inference_config(const ServedModel& model, const NodeRoles& place) {
  const Config& config = model.config;
  actors::InferenceConfig c;
  c.node = place.node;
  c.routers = place.routers;
  c.heartbeat = {config.duration_us("cluster.heartbeat")};
  c.model_version = model.names.model_version;
  c.slots = executors_of(config);
  c.queue_max = static_cast<std::uint32_t>(config.integer("inference.queue_max"));
  c.batch_tokens_max = static_cast<std::uint32_t>(config.integer("inference.batch_tokens_max"));
  c.overlap = config.boolean("inference.overlap");
  const placement::ModelShape& shape = model.facts.shape;
  const std::string& device = config.text("router.device");
  c.costs = placement::unit_costs(shape);
  c.nominal_pace = placement::pace_of(serving_device(device.empty() ? "cpu" : device), shape);
  c.page_tokens = model.facts.layout.page_tokens;
  if (is_sharded(model)) c.shard_owners = place.workers;
  if (model.facts.table_columns > 0)
    c.refill_bytes = static_cast<double>(config.size_bytes("model.table_refill"));
  return c;
}

std::unique_ptr<Core> LocalNode::make_allocator() const {
  actors::AllocatorConfig c = allocator_config(config_, roles_, static_cast<std::uint32_t>(arena_->pages()));
  c.shares = shares();
  c.policy = split_of(config_);
  c.first = first_area(c.shares.size());
  c.window = {config_.duration_us("pool.split_window")};
  c.objective = {config_.duration_us("pool.split_objective")};
  c.history_max = first().facts.limits.positions_max;
  return std::make_unique<actors::AllocatorCore>(c);
}

actors::AllocatorConfig allocator_config(const Config& config, const NodeRoles& place, std::uint32_t pages) {
  actors::AllocatorConfig c;
  c.node = place.node;
  c.pages = pages;
  c.shares = shares_of(config, false);
  return c;
}

}  // namespace troupe::deploy
