#pragma once
// Simulated cluster of one scenario: the production cores on their nodes, each process with its ports and
// pages, and the world (network, disks, coordination store, profiles and catalogs) that outlives processes.
// The fault injector and the judges access everything through this class.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/allocator/allocator_core.h"
#include "actors/cache_meta/cache_meta_core.h"
#include "actors/inference/inference_core.h"
#include "actors/kv_worker/kv_worker_core.h"
#include "router/router_core.h"
#include "runtime/actor/metrics.h"
#include "runtime/coordination/members.h"
#include "sim/base/violations.h"
#include "sim/cluster/host_charge.h"
#include "sim/cluster/phases.h"
#include "sim/host/sim_host.h"
#include "sim/ports/compute_port.h"
#include "sim/ports/feature_port.h"
#include "sim/ports/store_port.h"
#include "sim/scenario/scenario.h"

namespace troupe::sim {

// Ports and cores of one additional model on a node; null without a living process.
struct AdditionalModel {
  std::unique_ptr<SimComputePort> compute;
  std::unique_ptr<SimFeaturePort> feature;
  router::RouterCore* router = nullptr;
  actors::InferenceCore* inference = nullptr;
};

struct Node {
  NodeId id = 0;
  bool is_router = false, is_cache_meta = false, is_worker = false;
  // State that outlives the node's processes.
  std::unique_ptr<SimDisk> disk;
  DeviceFaults device;
  FeatureFaults features;
  TransferFaults transfer;
  Instant disturbed;  // when its process was last killed, started, paused or resumed
  std::uint32_t kills = 0;
  bool draining = false;  // by an operator: clients avoid it
  bool gone = false;      // has left the cluster
  // State of the living process, else null.
  std::unique_ptr<Pages> pages;
  std::unique_ptr<SimComputePort> compute;
  std::unique_ptr<SimStorePort> store;
  std::unique_ptr<SimFeaturePort> feature;
  std::unique_ptr<CoordinationPort> coordination;
  router::RouterCore* router = nullptr;
  actors::CacheMetaCore* cache_meta = nullptr;
  actors::KvWorkerCore* kv_worker = nullptr;
  actors::InferenceCore* inference = nullptr;
  std::vector<AdditionalModel> others;  // of the additional models

  // Returns the cores of all models; empty if there are none or no process.
  std::vector<const router::RouterCore*> routers() const;
  std::vector<const actors::InferenceCore*> inferences() const;
};

// Returns the content options of the scenario's world.
WorldOptions world_options(const Scenario& scenario);
// Returns the prompt form of the scenario's models.
PromptForm prompt_form(const WorldData& world, const Scenario& scenario);

class Cluster {
 public:
  Cluster(const Scenario& scenario, Violations& violations);
  ~Cluster();

  const Scenario& scenario() const { return scenario_; }
  SimHost& host() { return host_; }
  WorldData& world() { return world_; }
  SimCoordination& coordination() { return coordination_; }
  MetricRegistry& metrics() { return metrics_; }
  const PromptForm& form() const { return form_; }
  const ToyFamily& family(std::uint32_t model = 0) const;  // every other model belongs to another family
  ModelActorIds actor_ids() const { return {scenario_.models}; }
  // Planned placement of item blocks; null = anywhere.
  const router::ItemAssignment* places() const { return places_.get(); }
  std::map<NodeId, Node>& nodes() { return nodes_; }
  Node& node(NodeId id) { return nodes_.at(id); }
  std::set<std::uint64_t>& poisons() { return poisons_; }
  const CorruptedAnswers& struck() const { return struck_; }
  LogSink on_log;  // receives the nodes' log lines; may be empty
  // Called when a router reports an answer that its verification contradicts; only the inspector uses it.
  std::function<void(std::string_view actor, std::string_view event)> on_difference;
  // Called when a bit of a block in a node's memory flips; only the inspector uses it.
  std::function<void(NodeId, std::uint64_t generation)> on_bit_flipped;
  Instant now() const { return host_.now(); }

  void start() { host_.start(); }
  void kill(NodeId node);     // other nodes are notified after a while
  void restart(NodeId node);  // the process must be dead
  void pause(NodeId node);
  void resume(NodeId node);
  // Adds a worker that no cluster file names to the members, and starts it.
  void join(NodeId node);
  // Marks a worker as leaving and returns the membership revision. Its process continues until an operator
  // ends it.
  Revision begin_leave(NodeId node);
  void end_leave(NodeId node);  // removes it from the members and kills it for good
  ReadMembers members();        // as in the coordination store
  const std::vector<NodeId>& workers() const { return workers_; }  // of the cluster's file
  void wipe(NodeId node) { nodes_.at(node).disk->wipe(); }
  // Called for each batch with a poisonous request, before the process dies.
  std::function<void(NodeId, std::uint64_t content)> on_poison;
  // Called when a fault that waits for a job has acted; see SimStoreOptions::on_struck.
  std::function<void(NodeId, FaultKind)> on_struck;

  // Returns the served versions from the coordination store; the initial ones before any write.
  Versions versions(std::uint32_t model = 0) const;
  static constexpr const char* models[] = {"m1", "m2", "m3"};

  // Makes the served catalog the one from which the world lists items.
  void follow_catalog();

  bool in_phase(Phase phase) const;
  std::uint64_t page_bytes() const;
  bool works_in_background() const;  // computes item blocks, or verifies answers
  // null = steps take no time
  const HostCharge* host_charge() const { return charge_ ? &*charge_ : nullptr; }
  // Returns "" or the bound (promise 10) or invariant that an actor violates.
  std::string check_bounds() const;
  // Returns the leading cache-meta, which answers router lookups; null if there is none.
  const actors::CacheMetaCore* leader() const;

 private:
  void add_node(NodeId id, bool joins = false);
  Revision change_members(const std::function<MembersChange(ClusterMembers)>& change);
  std::vector<Member> file() const;  // the workers of the cluster's file
  std::vector<ActorSpec> start_process(Node& node, Incarnation incarnation);
  SimOptions sim_options();
  router::RouterConfig drawn_router() const;
  router::RouterConfig simulated_router(const Node& node) const;
  actors::CacheMetaConfig drawn_cache_meta() const;
  actors::KvWorkerConfig drawn_kv_worker() const;
  actors::InferenceConfig drawn_inference() const;
  ActorSpec make_router(Node& node, Incarnation incarnation, std::uint32_t model = 0);
  ActorSpec make_cache_meta(Node& node, Incarnation incarnation);
  ActorSpec make_kv_worker(Node& node, Incarnation incarnation);
  ActorSpec make_inference(Node& node, Incarnation incarnation, std::uint32_t model = 0);
  std::unique_ptr<Core> wrap_for_model(std::unique_ptr<Core> core, std::uint32_t model) const;
  // Returns the actor ids of all models on these nodes.
  std::vector<NodeId> numbers(const std::vector<NodeId>& nodes) const;
  const std::string& first_version(std::uint32_t model) const;
  std::string own_keys(std::uint32_t model) const;
  std::string name_of_model(std::uint32_t model) const {
    return std::string(1, static_cast<char>('a' + model));
  }
  ActorSpec make_allocator(Node& node);
  Duration batch_time(const placement::Pass& pass, std::uint64_t pulled_tokens) const;
  placement::UnitCosts unit_costs() const;
  placement::Pace pace() const;
  std::vector<double> shares() const;

  const Scenario scenario_;
  Violations& violations_;
  MetricRegistry metrics_;
  WorldData world_;
  PromptForm form_;
  NameContext names_;
  std::vector<std::string> other_versions_;  // of the additional models
  WorldCatalogs catalogs_;
  SimCoordination coordination_;
  PageRegistry registry_;
  std::set<std::uint64_t> poisons_;
  CorruptedAnswers struck_;
  std::vector<NodeId> routers_, cache_metas_, workers_;
  std::shared_ptr<const router::ItemAssignment> places_;
  std::map<NodeId, Node> nodes_;
  std::optional<placement::CostModel> cost_;
  std::optional<HostCharge> charge_;
  RandomStream random_;
  SimHost host_;  // last: its actors refer to everything above
};

}  // namespace troupe::sim
