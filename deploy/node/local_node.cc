// Builds the actors of one process from its settings: models, stores, page pool, and the router,
// cache-meta and workers. Adds them to a host, which runs them in real time or in a simulation.
#include "deploy/node/local_node.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "deploy/models/engine.h"
#include "deploy/node/core_configs.h"
#include "deploy/node/feature_ownership.h"
#include "deploy/node/membership.h"
#include "deploy/node/memory_needs.h"
#include "deploy/node/model_compute.h"
#include "deploy/node/node_cores.h"
#include "deploy/node/page_transport.h"
#include "deploy/node/record_folders.h"
#include "deploy/node/store_reports.h"
#include "kernels/base/check.h"
#include "runtime/coordination/incarnation.h"
#include "runtime/host/model_metrics.h"
#include "runtime/profiling/process_limits.h"
#include "runtime/store/store_cache.h"
#include "runtime/store/store_rows.h"

namespace troupe::deploy {

namespace {

// A router has executors for all writes that it gives to the store at a time, and further ones: a read for a
// ranking never waits for a disk that syncs slowly.
constexpr std::uint32_t read_executors = 3, router_executors = read_executors + router::router_writes_at_once,
                        cache_meta_executors = 1, store_executors = 2, scrub_executors = 1;
// At most one job about records runs at a time, so these never delay a request's job.
constexpr std::uint32_t record_executors = 1;
// Executor slots of the features beyond those of the router's executors.
constexpr std::uint32_t refresh_slot = router_executors + record_executors, profile_slot = refresh_slot + 1,
                        feature_slots = profile_slot + 1;

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

std::unique_ptr<PageArena> make_arena(std::size_t page_bytes, std::size_t pages) {
  try {
    return std::make_unique<PageArena>(page_bytes, pages);
  } catch (const std::bad_alloc&) {
    throw ConfigError("pool.memory: " + std::to_string(pages) + " pages of " + std::to_string(page_bytes) +
                      " bytes cannot be mapped; expected a pool that fits this machine's memory, of which " +
                      mebibytes(machine_memory_available()) + " are free");
  }
}

// `damage` gets the error text if the coordination file was set aside. `on_loss`: etcd has lost data.
std::unique_ptr<Coordination> make_coordination(
    const Config& config, const NodeRoles& place, std::string& damage,
    std::function<void(const std::string& what, const std::string& why)> on_loss) {
  if (!place.is_alone() || !config.cluster.coordination.empty())
    return etcd_coordination(config.cluster, std::move(on_loss));
  const std::filesystem::path file = std::filesystem::path(required_data_dir(config.node)) / "coordination";
  try {
    return std::make_unique<FileCoordination>(file);
  } catch (const CoordinationDamage& error) {
    if (config.store.on_damage != StoreSettings::OnDamage::start)
      throw CoordinationDamage(std::string(error.what()) + ", or set store.on_damage to start");
    damage = error.what();
    set_coordination_aside(file);
    return std::make_unique<FileCoordination>(file);
  }
}

std::unique_ptr<Core> with_reasons(std::unique_ptr<Core> core, const DegradedReasons& reasons) {
  if (!reasons) return core;
  return std::make_unique<DegradedStatus>(std::move(core), reasons);
}

}  // namespace

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
  const auto limit = memory_limit();
  if (limit) reject_if_weights_too_large(models, *limit);
  models_ = read_models(std::move(models), families_, roles_.node);
  const std::filesystem::path folder = required_data_dir(config_.node);
  if (roles_.routers.size() > 1 && keeps_features())
    throw ConfigError("features.store is empty; expected a Redis, because there are several routers");
  make_data_folder(folder);
  open_store(folder);
  if (roles_.worker) open_worker();
  for (const auto& model : models_) model->opened = {};  // a node that is no worker drops the weights
  if (const auto left = memory_limit(); left && !roles_.worker)
    reject_if_too_large(memory_needs(config_, models_, roles_), *left);
  coordination_ = make_coordination(
      config_, roles_, coordination_damage_,
      [this](const std::string& what, const std::string& why) { report_coordination_loss(what, why); });
  if (metrics_)
    for (const char* what : {"emptied", "went_back", "replaced"})
      metrics_->record(Metric::coordination_losses, 0, what);
  incarnation_ = new_incarnation(*coordination_, roles_);
  if (roles_.worker) open_transport();
  delete_other_records(folder, recorded_models());
  if (roles_.router)
    for (const auto& model : models_) open_router(*model);
  if (roles_.cache_meta) cache_meta_port_ = std::make_unique<CoordinationPort>(*coordination_, nullptr);
}

// A damaged store with profiles and items stops the start by default: only its owner may decide to
// lose them. A damaged store with blocks alone is replaced, because blocks can be computed again.
void LocalNode::open_store(const std::filesystem::path& folder) {
  if (keeps_features() && !has_names()) {
    store_ = std::make_unique<Store>(folder, store_options(config_.store));
    report_store_health(log_, metrics_, *store_);
    return;
  }
  if (keeps_features())
    for (const auto& model : models_) {
      const std::filesystem::path own = required_data_dir(model->config.node);
      make_data_folder(own);
      if (std::filesystem::equivalent(own, folder))
        throw ConfigError("model " + model->name + " has its data in " + own.string() +
                          ", the same as the node itself; expected a folder of its own");
      model->store = std::make_unique<Store>(own, store_options(model->config.store));
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
  const std::size_t pages = pages_of(config_.pool, page_bytes);
  if (const auto limit = memory_limit()) reject_if_too_large(memory_needs(config_, models_, roles_), *limit);
  arena_ = make_arena(page_bytes, pages);
  blocks_ = std::make_unique<BlockStorePort>(*store_, *arena_, shared_name_context(models_, page_bytes),
                                             config_.pool.store_bytes_max);
  for (const auto& model : models_) {
    if ((model->opened.make_assets || model->prompt.generates() || model->prompt.searches_items) &&
        !roles_.router)
      throw ConfigError(
          "this node has no router; expected one, because the model computes with the catalog, which routers "
          "keep");
    open_compute(*model, *arena_);
  }
}

void LocalNode::open_transport() {
  if (!roles_.is_alone()) {  // another worker may join
    TROUPE_CHECK(metrics_, "a node that pulls needs metrics");
    OpenedTransport opened = open_page_transport(config_, roles_, incarnation_, *arena_, *metrics_, log_);
    transport_ = std::move(opened.transport);
    link_transport_ = opened.over_links;
  }
  kv_port_ = std::make_unique<KvWorkerPort>(transport_.get(), *blocks_, *arena_);
}

void LocalNode::open_router(ServedModel& model) {
  if (model.config.features.items == FeatureSettings::Items::cached &&
      (model.prompt.generates() || model.prompt.searches_items))
    throw ConfigError(
        "features.items is cached, and the model finds items of the whole catalog; expected whole, or a "
        "model "
        "that ranks");
  const ModelFingerprints present = made_for(model.names.model_version, model.vocabulary, model.prompt);
  CachedFeatureOptions cached = cached_feature_options(model.config.features);
  cached.slot = refresh_slot;
  auto store = open_features(
      model.config, model.store ? model.store.get() : store_.get(),
      feature_limits(model.config.router, model.facts), feature_slots,
      [names = router::BlockNames(model.prompt, model.names)](std::span<const Token> tokens) {
        return names.item(tokens);
      },
      {[&model, present](const std::string& noted) {
         return describe_mismatch(noted, present, model.config);
       },
       [this](const std::string& what) { report_loss(what); },
       [this](const std::string& what) { report_eviction_risk(what); },
       [this](const ItemSources& sources) { count_item_sources(sources); }},
      model.name);
  model.features = std::make_unique<CachedFeatures>(std::move(store), cached);
  claim_rows(*model.features, present, model.config, [this](const std::string& what) {
    const std::vector<LogField> fields{{"what", what}};
    if (log_) log_(LogLevel::warning, "main", "feature_rows_without_model", fields);
  });
  const std::string own_keys = model.name.empty() ? "" : "model/" + model.name + "/";
  model.coordination_port =
      std::make_unique<CoordinationPort>(*coordination_, model.features.get(), own_keys);
  open_records(model);
  if (auto plan = find_plan_name(model.config.pool.placement))
    model.placement_port = std::make_unique<PlacementPort>(*std::move(plan), *model.router_port());
}

// Returns the names of the models whose answers this node records; "" = the only model.
std::set<std::string> LocalNode::recorded_models() const {
  std::set<std::string> names;
  for (const auto& model : models_)
    if (roles_.router && model->config.replay.keep.us > 0) names.insert(model->name);
  return names;
}

// A node whose disk takes no records serves without them. It does not start if histories of before can
// neither be used nor deleted.
void LocalNode::open_records(ServedModel& model) {
  const ReplaySettings& settings = model.config.replay;
  if (settings.keep.us <= 0) return;
  const std::filesystem::path folder = record_folder(required_data_dir(config_.node), model.name);
  make_data_folder(folder);
  const RecordStoreOptions options{
      .keep = settings.keep,
      .bytes_max = settings.bytes_max,
      .now_us = wall_clock_us,
      .find_users = [&model](std::span<const std::string> keys, std::uint32_t slot) {
        return model.features->find_users(keys, slot);
      }};
  try {
    model.records = std::make_unique<RecordStore>(folder, options);
    model.record_port = std::make_unique<RecordPort>(*model.records, *model.coordination_port);
  } catch (const UndeletableRecords&) {
    throw;
  } catch (const StoreError& error) {
    const std::vector<LogField> fields{{"records", 0}, {"why", error.what()}};
    if (log_) log_(LogLevel::warning, "main", "records_lost", fields);
    model.record_port = std::make_unique<RecordPort>(error.what(), *model.coordination_port);
  }
}

// Redis lost writes that it had acknowledged. The data must be imported again.
void LocalNode::report_loss(const std::string& what) const {
  if (metrics_) metrics_->record(Metric::features_lost, 1);
  const std::vector<LogField> fields{
      {"why", what}, {"expected", "a Redis that keeps acknowledged writes; import the data again"}};
  if (log_) log_(LogLevel::error, "main", "features_lost", fields);
}

void LocalNode::count_item_sources(const ItemSources& sources) const {
  if (!metrics_) return;
  metrics_->record(Metric::feature_items_cached, static_cast<double>(sources.cached));
  metrics_->record(Metric::feature_items_stale, static_cast<double>(sources.stale));
  metrics_->record(Metric::feature_items_read, static_cast<double>(sources.read));
}

// Redis drops rows as soon as it has too little memory.
void LocalNode::report_eviction_risk(const std::string& what) const {
  const std::vector<LogField> fields{
      {"why", what},
      {"expected", "maxmemory-policy noeviction, with which a full Redis refuses writes and loses nothing"}};
  if (log_) log_(LogLevel::warning, "main", "features_may_be_evicted", fields);
}

// etcd lost changes that it had acknowledged. Routers write the served versions again.
void LocalNode::report_coordination_loss(const std::string& what, const std::string& why) const {
  if (metrics_) metrics_->record(Metric::coordination_losses, 1, what);
  const std::vector<LogField> fields{
      {"what", what}, {"why", why}, {"expected", "an etcd that keeps its data; check versions and members"}};
  if (log_) log_(LogLevel::error, "main", "coordination_lost", fields);
}

ProfilePointer LocalNode::find_profile(const ServedModel& model, const std::string& tenant,
                                       const std::string& user) {
  const std::string key = user_key(tenant, user);
  return model.features->find_users({&key, 1}, profile_slot).at(0).user;
}

LocalNode::~LocalNode() = default;

std::vector<NodeId> LocalNode::actor_ids(std::span<const NodeId> nodes) const {
  std::vector<NodeId> ids;
  for (const NodeId node : nodes)
    for (const auto& model : models_) ids.push_back(actor_ids().number(node, model->place));
  return ids;
}

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

void LocalNode::add_to(Host& host, const DegradedReasons& reasons) {
  const NodeCores cores(config_, roles_, models_, incarnation_, arena_.get());
  if (roles_.router)
    for (const auto& model : models_)
      host.add({{model->number, Role::router},
                with_reasons(model->as_model_actor(cores.router(*model), actor_ids()),
                             model == models_.front() ? reasons : nullptr),
                model->router_port(),
                router_executors + (model->record_port ? record_executors : 0)});
  if (roles_.cache_meta)
    host.add({{roles_.node, Role::cache_meta},
              with_reasons(cores.cache_meta(), roles_.router || roles_.worker ? nullptr : reasons),
              cache_meta_port_.get(),
              cache_meta_executors});
  if (roles_.worker) add_worker_to(host, cores, roles_.router ? nullptr : reasons);
}

void LocalNode::add_worker_to(Host& host, const NodeCores& cores, const DegradedReasons& reasons) {
  const NodeId node = roles_.node;
  const ItemArea items = sized_item_area(cores.has_row_area());
  const actors::KvWorkerConfig kv = cores.kv_worker(items);
  log_areas(kv.pool, items);
  host.add({{node, Role::kv_worker},
            with_reasons(std::make_unique<actors::KvWorkerCore>(kv), reasons),
            kv_port_.get(),
            block_executors(kv)});
  for (const auto& model : models_)
    host.add({{model->number, Role::inference_worker},
              model->as_model_actor(cores.inference_worker(*model), actor_ids()),
              model->compute.get(),
              model->compute->slots()});
  host.add({{node, Role::allocator}, cores.allocator(items)});
}

// Counts the catalogs only where that decides the size. A Redis is asked once if its catalog has not been
// read yet.
ItemArea LocalNode::sized_item_area(bool has_rows) {
  std::vector<ModelItemBlocks> blocks;
  for (const auto& model : models_) {
    if (config_.pool.item_share) break;
    CatalogPointer catalog;
    if (model->features && item_blocks_of(*model) != router::ItemBlockKind::none) {
      if (!model->features->present_catalog()) model->features->find_users({}, profile_slot);
      catalog = model->features->present_catalog();
    }
    blocks.push_back(model_item_blocks(*model, catalog));
  }
  return item_area(config_.pool, blocks, static_cast<std::uint32_t>(arena_->pages()), has_rows);
}

void LocalNode::log_areas(const PagePoolSizes& pool, const ItemArea& items) const {
  if (!log_) return;
  std::vector<LogField> fields{{"item_area", items.rule}};
  for (std::size_t i = 0; i < pool.areas.size(); ++i)
    fields.push_back({std::string(area_table[i].name) + "_pages", pool.areas[i].split.pages});
  log_(LogLevel::info, "main", "pool_areas", fields);
}

}  // namespace troupe::deploy
