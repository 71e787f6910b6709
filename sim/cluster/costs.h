#pragma once
// Judge of waste (promise 20), which no oracle sees because every answer stays correct (promise 7). The
// judge keeps its own records of the messages between actors and reads their state. It reports a block that
// is computed although it was there, and a reply with wrong token counts. It reports a worker that requests
// a block it has or requests it twice, pulls more than it was granted, evicts without need or in the wrong
// order, forgets popular blocks, or lets requests wait for a block nobody writes. It reports a split that
// is set again, a plan sent to a worker that must compute much more of it than an idle one, and a plan
// without the location of its blocks. Wasted attempts are judged by `Attempts`.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/actor/block_name.h"
#include "sim/base/violations.h"
#include "sim/cluster/cluster.h"

namespace troupe::sim {

class Costs {
 public:
  Costs(Cluster& cluster, Violations& violations) : cluster_(cluster), violations_(violations) {}

  // Must get every message when its core sends it, and every event before its core's step.
  void on_send(Address from, Address to, const Message& message);
  void on_event(Address to, const Event& event);
  void look();  // called at intervals

 private:
  using Generation = std::uint64_t;
  using Key = std::pair<NodeId, RequestId>;         // a request of that node
  using Requester = std::pair<Address, RequestId>;  // requester at a KV-cache worker
  using TokenCounts = std::vector<std::uint32_t>;   // per segment of a plan
  struct ReadyBlock {                               // a ready block
    SegmentKind kind = SegmentKind::item;
    std::uint32_t tokens = 0;
    // Bounds of the time of its last use, in uses; while it is read, `latest` is far_away.
    std::uint64_t earliest = 0, latest = 0;
  };
  struct PlanStart {  // blocks ready when a plan reached an inference worker
    std::map<std::uint32_t, std::pair<BlockName, Generation>> blocks;  // by segment
    // wait limit for blocks; a worker that stalls that long computes without them
    std::int64_t wait_max_us = 0;
  };
  struct ActiveReads {             // of a request
    std::vector<Generation> sure;  // ready when it arrived, or granted
    std::vector<BlockName> wants;
  };
  struct Worker {
    std::map<Key, PlanStart> plans;
    std::map<Generation, ReadyBlock> blocks;
    std::map<Requester, ActiveReads> reads;
    std::set<Generation> asked;     // requested from other nodes
    std::vector<BlockName> wanted;  // by the request of this step, and ready before it
    bool acquires = false;          // in this step
    bool areas_are_one = false;     // for that request
    bool in_order = false;          // evicts in order of use only
    std::uint64_t uses = 0, uses_reported = 0, reported = 0, granted_pages = 0;
    // Uses since counts were last halved, as TinyLFU counts.
    std::unordered_map<BlockName, std::uint32_t, BlockNameHash> wants;
    std::uint64_t sightings = 0;
    bool counts = false;
  };
  struct Split {
    Incarnation incarnation = 0;
    std::uint64_t epoch = 0;
  };
  struct WorkerHeartbeat {  // last heartbeat that a router got from a worker
    Instant at;
    bool is_idle = false;
    double us_per_operation = 0;
    std::vector<std::string> models;
  };
  struct PlanBill {  // token counts of a plan that was sent
    TokenCounts tokens;
    std::vector<kernels::Repair::ReusedSpan> reused_spans;
    double left = 0;  // tokens of all places that are taken from their blocks
  };
  using Holders = std::unordered_map<BlockName, std::vector<NodeId>, BlockNameHash>;
  struct IndexAnswer {  // answer of the index for a plan
    Instant at;
    Holders holders;  // each node once
  };
  struct Router {
    std::map<RequestId, PlanBill> plans;
    std::map<RequestId, std::vector<BlockName>> lookups;
    std::map<RequestId, IndexAnswer> found;
    std::map<NodeId, WorkerHeartbeat> beats;
    // Total and reused tokens of the answer in this step.
    std::optional<std::pair<std::uint32_t, std::uint32_t>> bill;
  };

  // ---- KV-cache workers ----
  void on_worker_event(NodeId node, const Event& event);
  void note_wants(NodeId node, Worker& worker, Address from, const AcquireBlocks& ask);
  void count_wants(NodeId node, Worker& worker, const AcquireBlocks& ask);
  void note_release(NodeId node, Worker& worker, Address from, const ReleaseBlocks& release);
  void on_worker_send(NodeId node, Address to, const Message& message);
  void judge_remote_request(NodeId node, Worker& worker, const AcquireBlocks& ask);
  void judge_evictions(NodeId node, Worker& worker, const CacheChanges& changes);
  static bool is_read(const Worker& worker, const PoolBlock& block);
  void judge_evicted(NodeId node, const Worker& worker, const BlockVersion& gone, const ReadyBlock& block);

  // ---- inference workers, allocators ----
  void note_plan(NodeId node, Address from, const Execute& plan);
  void judge_reuse(NodeId node, Address to, const Executed& executed);
  void judge_split(NodeId node, const SetSplit& split);

  // ---- routers ----
  void on_router_event(NodeId node, const Event& event);
  void on_router_send(NodeId node, Address to, const Message& message);
  void note_found(Router& router, const BlocksFound& found);
  static PlanBill bill_of(const Plan& plan);
  void note_bill(Router& router, const Executed& executed);
  template <class Reply>
  void judge_token_counts(NodeId node, Router& router, const Reply& reply);
  void judge_worker_choice(NodeId node, Router& router, NodeId to, const Execute& plan);
  void judge_sources(NodeId node, NodeId to, const Holders& holders, const Execute& plan);
  static NodeId most_held(const Holders& holders, const Execute& plan);
  double tokens_left(const Router& router, RequestId id, NodeId at, const Execute& plan,
                     double pull_share) const;

  const PoolBlock* ready(NodeId node, const BlockName& name, SegmentKind kind, std::uint64_t tokens) const;
  void report(const char* role, NodeId node, const std::string& what);

  Cluster& cluster_;
  Violations& violations_;
  std::map<NodeId, Worker> workers_;
  std::map<NodeId, Split> splits_;  // reported by workers to their allocators
  std::map<NodeId, Router> routers_;
};

}  // namespace troupe::sim
