#pragma once
// What only costs leaves every answer right (promise 7), so no oracle sees it. This judge keeps books of its
// own from what actors say to each other, and looks at what they hold: a block that was there all along is
// not computed again, a reply tells the tokens that were computed, nobody asks elsewhere for what he has or
// asks twice, pulls no more than he was granted, evicts what he need not or what was used after what stays,
// forgets what was hot, waits for what nobody makes, moves a boundary that stands, sends a plan to a worker
// that has to compute much more of it than an idle one, or does not say where its blocks are (promise 20:
// nothing is paid for in vain). Attempts in vain are the business of `Attempts`.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/violations.h"
#include "sim/cluster/cluster.h"

namespace troupe::sim {

class Costs {
 public:
  Costs(Cluster& cluster, Violations& violations) : cluster_(cluster), violations_(violations) {}

  // Every message when its core sends it, and every event before its core's step.
  void on_send(Address from, Address to, const Message& message);
  void on_event(Address to, const Event& event);
  void look();  // now and then

 private:
  using Generation = std::uint64_t;
  using Key = std::pair<NodeId, RequestId>;        // a request of that node
  using Asker = std::pair<Address, RequestId>;     // of a KV-cache worker
  using TokenCounts = std::vector<std::uint32_t>;  // of a plan's segments
  struct Known {                                   // a ready block
    SegmentKind kind = SegmentKind::item;
    std::uint32_t tokens = 0;
    // Its last use was at some time between these; while it is read the latter is far away.
    std::uint64_t earliest = 0, latest = 0;
  };
  struct Ready {  // of a plan that came to an inference worker
    std::map<std::uint32_t, std::pair<BlockName, Generation>> blocks;  // by segment
    std::int64_t patience_us = 0;  // for blocks; a worker that stood still as long goes on without them
  };
  struct Reads {                   // of a request
    std::vector<Generation> sure;  // were there when it came, or were granted
    std::vector<BlockName> wants;
  };
  struct Worker {
    std::map<Key, Ready> plans;
    std::map<Generation, Known> blocks;
    std::map<Asker, Reads> reads;
    std::set<Generation> asked;  // of other nodes
    std::set<BlockName> wanted;  // by the request of this step, and there before it
    bool acquires = false;       // in this step
    bool areas_are_one = false;  // for that request
    bool in_order = false;       // it makes room in order of use alone
    std::uint64_t uses = 0, uses_told = 0, told = 0, granted_pages = 0;
    std::map<BlockName, std::uint32_t> wants;  // since counts were last halved, as TinyLFU counts
    std::uint64_t sightings = 0;
    bool counts = false;
  };
  struct Split {
    Incarnation incarnation = 0;
    std::uint64_t epoch = 0;
  };
  struct Beat {  // what a router has heard of a worker
    Instant at;
    bool is_idle = false;
    double us_per_operation = 0;
    std::vector<std::string> models;
  };
  struct Billed {  // of a plan that was sent
    TokenCounts tokens;
    std::vector<kernels::Repair::Place> places;
    double left = 0;  // tokens of all places that are left to their blocks
  };
  struct Found {  // what a router was told of a plan's blocks
    Instant at;
    std::map<BlockName, std::set<NodeId>> holders;
  };
  struct Router {
    std::map<RequestId, Billed> plans;
    std::map<RequestId, std::vector<BlockName>> lookups;
    std::map<RequestId, Found> found;
    std::map<NodeId, Beat> beats;
    std::optional<std::pair<std::uint32_t, std::uint32_t>>
        bill;  // total and reused, of the answer of this step
  };

  // ---- KV-cache workers ----
  void on_worker_event(NodeId node, const Event& event);
  void note_wants(NodeId node, Worker& worker, Address from, const AcquireBlocks& ask);
  void count_wants(NodeId node, Worker& worker, const AcquireBlocks& ask);
  void note_release(NodeId node, Worker& worker, Address from, const ReleaseBlocks& release);
  void on_worker_send(NodeId node, Address to, const Message& message);
  void judge_question(NodeId node, Worker& worker, const AcquireBlocks& ask);
  void judge_evictions(NodeId node, Worker& worker, const CacheChanges& changes);
  static bool is_read(const Worker& worker, const PoolBlock& block);
  void judge_evicted(NodeId node, const Worker& worker, const BlockVersion& gone, const Known& block);

  // ---- inference workers, allocators ----
  void note_plan(NodeId node, Address from, const Execute& plan);
  void judge_reuse(NodeId node, Address to, const Executed& executed);
  void judge_split(NodeId node, const SetSplit& split);

  // ---- routers ----
  void on_router_event(NodeId node, const Event& event);
  void on_router_send(NodeId node, Address to, const Message& message);
  void note_found(Router& router, const BlocksFound& found);
  static Billed billed(const Plan& plan);
  void note_bill(Router& router, const Executed& executed);
  template <class Reply>
  void judge_bill(NodeId node, Router& router, const Reply& reply);
  void judge_place(NodeId node, Router& router, NodeId to, const Execute& plan);
  void judge_sources(NodeId node, NodeId to, const std::map<BlockName, std::set<NodeId>>& holders,
                     const Execute& plan);
  static NodeId most_held(const std::map<BlockName, std::set<NodeId>>& holders, const Execute& plan);
  double tokens_left(const Router& router, RequestId id, NodeId at, const Execute& plan,
                     double pull_share) const;

  const PoolBlock* ready(NodeId node, const BlockName& name, SegmentKind kind, std::uint64_t tokens) const;
  void report(const char* role, NodeId node, const std::string& what);

  Cluster& cluster_;
  Violations& violations_;
  std::map<NodeId, Worker> workers_;
  std::map<NodeId, Split> splits_;  // that workers have reported to their allocators
  std::map<NodeId, Router> routers_;
};

}  // namespace troupe::sim
