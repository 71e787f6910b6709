#pragma once
// The actors of one process: loads the model, opens the data folder, maps the pool, makes the ports and the
// cores of the roles that this node has, and puts them on a host. A box that is alone has all five;
// `serve`, the benchmarks and the scenario tests stand on that; `node` runs one place of a cluster. Which
// world it runs in is the host's matter.
//
// A box that is alone, or all nodes of a cluster, may serve several models, each under its name: each has a
// router and an inference worker of its own where the node has that role, and profiles and items of its own
// (in a folder, or in the Redis of a cluster under its name); the KV-cache workers, cache-metas and allocator
// agents serve all of them, on one pool (runtime/host/model_actor.h).
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "deploy/data/dataset.h"
#include "deploy/models/families.h"
#include "deploy/node/coordinating_port.h"
#include "deploy/node/features.h"
#include "deploy/node/pulling_port.h"
#include "deploy/node/served_model.h"
#include "runtime/config/config.h"
#include "runtime/coordination/file_coordination.h"
#include "runtime/coordination/members.h"
#include "runtime/host/host.h"
#include "runtime/pool/page_arena.h"
#include "runtime/store/store_blocks.h"
#include "runtime/transfer/transport.h"

namespace troupe::actors {
class ComputePort;
struct KvWorkerConfig;
}  // namespace troupe::actors

namespace troupe::deploy {

// The folder of users, items and saved blocks, made for its owner alone if it is not there. Whoever made it
// before chose who may look into it. Says nothing if it cannot: the store that is opened there does.
void make_data_folder(const std::filesystem::path& folder);

// What a process is in its cluster, and who the others are.
struct Place {
  NodeId node = 1;
  bool router = true, cache_meta = true, worker = true;
  std::vector<NodeId> routers{1}, cache_metas{1},
      workers{1};        // all nodes of the file with that role, this one too
  bool joined = false;   // this one is not in the file
  ReadMembers members;   // who had joined and left when this process began
  Incarnation seen = 0;  // of this node's last process, as it remembers itself
  bool is_alone() const { return routers.size() == 1 && routers == cache_metas && routers == workers; }
};

class Box {
 public:
  // Throws ConfigError, kernels::LoadError, StoreError, std::bad_alloc if the pool cannot be mapped, or
  // std::runtime_error if the coordination file cannot be used.
  // Throws ConfigError, too, if profiles and items are another model's (own_rows.h). `models`: that it
  // serves; none: the one that `config` says, which needs no name. `metrics` outlives it; only a node that
  // pulls from others, or whose profiles are in a Redis, needs it.
  explicit Box(Config config, Place place = {}, MetricRegistry* metrics = nullptr,
               const Families& families = all_families(), LogSink log = {},
               std::vector<NamedModel> models = {});
  ~Box();

  // Puts its actors on the host. Once. The box outlives the host's stop().
  void add_to(Host& host);

  static Address address(Role role) { return {1, role}; }  // of one that is alone
  Incarnation incarnation() const { return incarnation_; }
  Coordination& coordination() { return *coordination_; }
  PageArena* arena() { return arena_.get(); }                     // of a worker
  Transport* transport() { return transport_.get(); }             // null: nobody to pull from
  std::vector<Address> actors() const { return actors(place_); }  // of the whole cluster
  std::vector<Address> actors(const Place& of) const;             // where others are in it than at first

  // Of the store that was set aside at the start; empty: none was.
  const std::string& store_damage() const { return store_damage_; }
  // Of the coordination file that was set aside at the start (store.on_damage); empty: none was.
  const std::string& coordination_damage() const { return coordination_damage_; }
  Store* store() { return store_.get(); }  // null: neither a worker nor features in files
  bool keeps_features() const { return place_.router && !features_in_redis(config_); }
  bool has_names() const { return !first().name.empty(); }  // its models have
  Seats seats() const { return {static_cast<std::uint32_t>(models_.size())}; }
  const std::vector<std::unique_ptr<ServedModel>>& models() const { return models_; }
  // What it has counted, and what its models' actors have.
  std::string render_metrics(const MetricRegistry& own, MetricForm form) const;
  // Of the first model.
  std::uint64_t items() const { return first().features->items(); }
  FeatureStore& features() { return *first().features; }  // of a node with a router
  // Of a node with a router, as the store has it now; null: there is no such user. From one thread at a time.
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
  void open_engine(ServedModel& model);
  void open_transport();
  void open_router(ServedModel& model);
  void tell_loss(const std::string& what) const;
  void add_worker_to(Host& host);
  ServedModel& first() const { return *models_.front(); }
  std::vector<NodeId> numbers(std::span<const NodeId> nodes) const;  // of their models
  std::vector<NodeId> with_rows() const;  // of those, whose tables are not in memory
  std::vector<double> shares() const;     // of the pool's areas
  std::unique_ptr<Core> make_router(const ServedModel& model) const;
  std::unique_ptr<Core> make_cache_meta() const;
  std::uint32_t pull_parts() const;
  actors::KvWorkerConfig kv_worker_config() const;
  std::unique_ptr<Core> make_inference_worker(const ServedModel& model) const;
  std::unique_ptr<Core> make_allocator() const;

  const Config config_;
  const Place place_;
  MetricRegistry* const metrics_;
  const Families families_;
  const LogSink log_;
  std::uint32_t executors_ = 1;  // of each model
  std::unique_ptr<Store> store_;
  std::string store_damage_, coordination_damage_;
  std::unique_ptr<PageArena> arena_;
  std::vector<std::unique_ptr<ServedModel>> models_;
  std::unique_ptr<BlockStorePort> blocks_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<PullingPort> kv_port_;
  std::unique_ptr<Coordination> coordination_;
  std::unique_ptr<CoordinatingPort> cache_meta_port_;
  Incarnation incarnation_ = 0;
};

}  // namespace troupe::deploy
