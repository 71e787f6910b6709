#pragma once
// The actors of one process: loads the model, opens the data folder, maps the pool, makes the ports and the
// cores of the roles that this node has, and puts them on a host. A box that is alone has all five;
// `serve`, the benchmarks and the scenario tests stand on that; `node` runs one place of a cluster. Which
// world it runs in is the host's matter.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "deploy/box/coordinating_port.h"
#include "deploy/families/families.h"
#include "kernels/decoder/prototypes.h"
#include "deploy/box/features.h"
#include "deploy/box/pulling_port.h"
#include "deploy/data/dataset.h"
#include "kernels/checkpoint/vocabulary.h"
#include "router/request/block_names.h"
#include "runtime/hard_state/file_coordination.h"
#include "runtime/host/host.h"
#include "runtime/pages/page_arena.h"
#include "runtime/settings/config.h"
#include "runtime/store/store_blocks.h"
#include "runtime/transfer/transport.h"

namespace troupe::actors {
class ComputePort;
struct KvWorkerConfig;
}  // namespace troupe::actors

namespace troupe::deploy {

// A knob that has no default. Throws ConfigError if it is empty.
std::string required_text(const Config& config, const char* knob);

// The folder of users, items and saved blocks, made for its owner alone if it is not there. Whoever made it
// before chose who may look into it. Says nothing if it cannot: the store that is opened there does.
void make_data_folder(const std::filesystem::path& folder);

// What a process is in its cluster, and who the others are.
struct Place {
  NodeId node = 1;
  bool router = true, cache_meta = true, worker = true;
  std::vector<NodeId> routers{1}, cache_metas{1}, workers{1};  // all nodes with that role, this one too
  bool is_alone() const { return routers.size() == 1 && routers == cache_metas && routers == workers; }
};

class Box {
 public:
  // Throws ConfigError, kernels::LoadError, StoreError, std::bad_alloc if the pool cannot be mapped, or
  // std::runtime_error if the coordination file cannot be used.
  // Throws ConfigError, too, if profiles and items are another model's (own_rows.h).
  // `metrics` outlives it; only a node that pulls from others, or whose profiles are in a Redis, needs it.
  explicit Box(Config config, Place place = {}, MetricRegistry* metrics = nullptr,
               const Families& families = all_families(), LogSink log = {});
  ~Box();

  // Puts its actors on the host. Once. The box outlives the host's stop().
  void add_to(Host& host);

  static Address address(Role role) { return {1, role}; }  // of one that is alone
  Incarnation incarnation() const { return incarnation_; }
  PageArena* arena() { return arena_.get(); }          // of a worker
  Transport* transport() { return transport_.get(); }  // null: nobody to pull from
  std::vector<Address> actors() const;                 // of the whole cluster

  // Of the store that was set aside at the start; empty: none was.
  const std::string& store_damage() const { return store_damage_; }
  // Of the coordination file that was set aside at the start (store.on_damage); empty: none was.
  const std::string& coordination_damage() const { return coordination_damage_; }
  Store* store() { return store_.get(); }  // null: neither a worker nor features in files
  bool keeps_features() const { return place_.router && !features_in_redis(config_); }
  std::uint64_t items() const { return features_->items(); }
  FeatureStore& features() { return *features_; }  // of a node with a router
  const kernels::Vocabulary& vocabulary() const { return vocabulary_; }
  const router::PromptForm& prompt() const { return prompt_; }
  const ModelFacts& model() const { return model_; }
  std::uint32_t executors() const { return executors_; }
  std::size_t pool_pages() const { return arena_ ? arena_->pages() : 0; }

 private:
  void open_store(const std::filesystem::path& folder);
  void open_worker(OpenedModel model);
  void open_transport();
  void open_router();
  void tell_loss(const std::string& what) const;
  void add_worker_to(Host& host);
  std::unique_ptr<Core> make_router() const;
  std::unique_ptr<Core> make_cache_meta() const;
  actors::KvWorkerConfig kv_worker_config() const;
  std::unique_ptr<Core> make_inference_worker() const;
  std::unique_ptr<Core> make_allocator() const;

  const Config config_;
  const Place place_;
  MetricRegistry* const metrics_;
  const Families families_;
  const LogSink log_;
  ModelFacts model_;
  NameContext names_;
  kernels::Vocabulary vocabulary_;
  router::PromptForm prompt_;
  std::shared_ptr<const kernels::Prototypes> prototypes_;  // null: the model has none
  std::uint32_t executors_ = 1;
  std::unique_ptr<Store> store_;
  std::string store_damage_, coordination_damage_;
  std::unique_ptr<PageArena> arena_;
  std::unique_ptr<FeatureStore> features_;
  std::unique_ptr<BlockStorePort> blocks_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<PullingPort> kv_port_;
  std::unique_ptr<actors::ComputePort> compute_;
  std::unique_ptr<Coordination> coordination_;
  std::unique_ptr<CoordinatingPort> router_port_, cache_meta_port_;
  Incarnation incarnation_ = 0;
};

}  // namespace troupe::deploy
