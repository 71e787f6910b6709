#pragma once
// Builds the actors of one process: loads the models, opens the data folder, maps the pool, makes
// the ports and the cores of this node's roles, and adds them to a host. A single node has all five
// roles; `troupe serve`, the benchmarks and the scenario tests use that. `troupe node` runs one
// node of a cluster. The host decides whether the actors run in real time or in a simulation.
//
// A single node, or all nodes of a cluster, may serve several models, each under its name. Each
// model has its own router and inference worker on every node with that role. It also has its own
// profiles and items: in a folder, or in the cluster's Redis under the model's name. The KV-cache
// workers, cache-metas and allocator agents serve all models from one pool
// (runtime/host/model_actor.h).
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "deploy/data/dataset.h"
#include "deploy/models/model_families.h"
#include "deploy/node/coordination_port.h"
#include "deploy/node/degraded_status.h"
#include "deploy/node/features.h"
#include "deploy/node/item_area.h"
#include "deploy/node/kv_worker_port.h"
#include "deploy/node/node_cores.h"
#include "deploy/node/node_roles.h"
#include "deploy/node/served_model.h"
#include "runtime/config/config.h"
#include "runtime/coordination/file_coordination.h"
#include "runtime/host/host.h"
#include "runtime/pool/page_arena.h"
#include "runtime/store/store_blocks.h"
#include "runtime/transfer/link_transport.h"
#include "runtime/transfer/transport.h"

namespace troupe::deploy {

// Creates the folder for users, items and saved blocks, readable by its owner alone. An existing
// folder keeps its permissions. Errors are ignored here: opening the store in it reports them.
void make_data_folder(const std::filesystem::path& folder);

class LocalNode {
 public:
  // Serves `models`; if empty, the one unnamed model of `config`. `metrics` must outlive this
  // object; only a node that pulls from other nodes, or keeps its profiles in Redis, needs it.
  // Throws ConfigError (also if profiles and items belong to another model, feature_ownership.h),
  // kernels::LoadError, StoreError, std::bad_alloc if the pool cannot be mapped, or
  // std::runtime_error if the coordination file cannot be used.
  explicit LocalNode(Config config, NodeRoles place = {}, MetricRegistry* metrics = nullptr,
                     const ModelFamilies& families = all_families(), LogSink log = {},
                     std::vector<NamedModel> models = {});
  ~LocalNode();

  // Adds the actors to the host. Called once. This object must outlive the host's stop(). `reasons`: why the
  // process is degraded, which one actor's status shows: a router's, or else the KV-cache worker's or
  // cache-meta's. Empty: none.
  void add_to(Host& host, const DegradedReasons& reasons = {});

  static Address address(Role role) { return {1, role}; }  // of a single node
  Incarnation incarnation() const { return incarnation_; }
  Coordination& coordination() { return *coordination_; }
  PageArena* arena() { return arena_.get(); }                     // null: not a worker
  Transport* transport() { return transport_.get(); }             // null: there is no other node to pull from
  LinkTransport* link_transport() { return link_transport_; }     // null: pages do not travel over links
  std::vector<Address> actors() const { return actors(roles_); }  // of the whole cluster
  // with the nodes of `of` instead of those at the start
  std::vector<Address> actors(const NodeRoles& of) const;

  // Describes the store that was set aside at the start; empty: none.
  const std::string& store_damage() const { return store_damage_; }
  // Describes the coordination file that was set aside at the start (store.on_damage); empty: none.
  const std::string& coordination_damage() const { return coordination_damage_; }
  Store* store() { return store_.get(); }  // null: this node is no worker and keeps no features in files
  bool keeps_features() const { return roles_.router && !features_in_redis(config_.features); }
  bool has_names() const { return !first().name.empty(); }  // true if its models have names
  ModelActorIds actor_ids() const { return {static_cast<std::uint32_t>(models_.size())}; }
  const ServedModels& models() const { return models_; }
  // Renders the metrics in `own` and those of the models' actors.
  std::string render_metrics(const MetricRegistry& own, MetricForm form) const;
  // Number of items of the first model.
  std::uint64_t items() const { return first().features->items(); }
  // of the first model; only on a node with a router
  FeatureStore& features() { return *first().features; }
  // Returns the user's profile as the store has it now; null: unknown user. Requires a router on
  // this node. Called from one thread at a time.
  ProfilePointer find_profile(const ServedModel& model, const std::string& tenant, const std::string& user);
  const kernels::Vocabulary& vocabulary() const { return first().vocabulary; }
  server::ModelText text() const { return first().text(); }
  const PromptForm& prompt() const { return first().prompt; }
  const ModelFacts& model() const { return first().facts; }
  std::uint32_t executors() const { return executors_; }
  std::size_t pool_pages() const { return arena_ ? arena_->pages() : 0; }

 private:
  void open_store(const std::filesystem::path& folder);
  void open_worker();
  void open_transport();
  void open_router(ServedModel& model);
  void open_records(ServedModel& model);
  std::set<std::string> recorded_models() const;
  void report_loss(const std::string& what) const;
  void report_eviction_risk(const std::string& what) const;
  void count_item_sources(const ItemSources& sources) const;
  void report_coordination_loss(const std::string& what, const std::string& why) const;
  void add_worker_to(Host& host, const NodeCores& cores, const DegradedReasons& reasons);
  ItemArea sized_item_area(bool has_rows);
  void log_areas(const PagePoolSizes& pool, const ItemArea& items) const;
  ServedModel& first() const { return *models_.front(); }
  // actor ids of all models on these nodes
  std::vector<NodeId> actor_ids(std::span<const NodeId> nodes) const;

  const Config config_;
  const NodeRoles roles_;
  MetricRegistry* const metrics_;
  const ModelFamilies families_;
  const LogSink log_;
  std::uint32_t executors_ = 1;  // per model
  std::unique_ptr<Store> store_;
  std::string store_damage_, coordination_damage_;
  std::unique_ptr<PageArena> arena_;
  ServedModels models_;
  std::unique_ptr<BlockStorePort> blocks_;
  std::unique_ptr<Transport> transport_;
  LinkTransport* link_transport_ = nullptr;
  std::unique_ptr<KvWorkerPort> kv_port_;
  std::unique_ptr<Coordination> coordination_;
  std::unique_ptr<CoordinationPort> cache_meta_port_;
  Incarnation incarnation_ = 0;
};

}  // namespace troupe::deploy
