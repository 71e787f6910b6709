#pragma once
// Keeps the index up to date with the KV-cache workers. Each worker numbers its CacheChanges, and
// they are applied as long as none is missing. After a gap, a new incarnation or a first contact,
// the worker's inventory is walked a part at a time, while changes are still applied. Holdings that
// neither a part nor a change has shown since the walk began are stale when it ends. So are all
// holdings of a former incarnation. Stale holdings are swept a little at a time.
//
// Messages may overtake each other. Changes that arrive early wait a moment for the missing ones.
// If those do not arrive there is a gap, and a walk follows. A change older than one applied is
// ignored. From a part older than applied changes, the blocks that these changes removed are left
// out. If those removals are not remembered any more, the part is requested again.
//
// A worker that is silent for 3 heartbeats, or was reported lost, is not named in answers. Its
// blocks are kept for a while, so that a short pause costs nothing.
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/cache_meta/block_index.h"
#include "runtime/actor/core.h"
#include "runtime/pool/pool_areas.h"

namespace troupe::actors {

struct FollowConfig {
  std::vector<NodeId> nodes;  // messages of other nodes are not accepted
  Duration silent_after{600'000};
  Duration forget_after{30'000'000};  // silence after which a worker's holdings are forgotten
  Duration inventory_retry{400'000};  // an unanswered request is repeated after this long
  NodeId own = 0;  // worker in this process, which does not fall silent while the process lives; 0 = none
  // True if this node joined the cluster: workers do not know it and report only after they are
  // asked.
  bool joined_later = false;
  std::size_t removals_max = 1'024;  // remembered per walk
  Duration gap_after{100'000};       // how long early changes wait for the missing ones
  std::size_t early_max = 64;        // early changes kept per worker
  // Holdings examined per message and per tick while some may be stale.
  std::size_t swept_per_message = 256, swept_per_tick = 4'096;
};

class FollowedWorkers {
 public:
  struct NodeCapacity {
    NodeId node = 0;
    std::vector<AreaCapacity> areas;  // as in CacheChanges
    // Returns the free and total tokens of the area for blocks of this kind; zeros before the first
    // report.
    AreaCapacity of(SegmentKind kind) const;
    AreaCapacity all() const;
  };

  FollowedWorkers(FollowConfig config, BlockIndex& index);

  void start(Instant now, Effects& effects);  // requests every worker's inventory
  // Replaces the followed nodes. Requests the inventory of new nodes, and forgets the blocks of
  // nodes that left.
  void follow(Instant now, const std::vector<NodeId>& nodes, Effects& effects);
  bool knows(NodeId node) const { return workers_.contains(node); }
  static bool is_valid(const CacheChanges& changes) {
    return changes.incarnation != 0 && changes.sequence != 0;
  }
  // The node must be known (knows()). Returns false if the message is malformed.
  bool on_changes(Instant now, NodeId node, CacheChanges&& changes, Effects& effects);
  bool on_part(Instant now, NodeId node, InventoryPart&& part, Effects& effects);
  void on_lost(NodeId node);
  // Excludes from the workers' silence a stall in which this process did not listen.
  void shift_silence(Duration stall);
  // Called at least once per heartbeat: repeats requests and notices silent workers.
  void on_tick(Instant now, Effects& effects);

  const NodeCapacity* capacity(NodeId node) const;  // null if the worker is not named
  // Calls `visit` with the capacity of each worker of `nodes`, or of all workers if `nodes` is
  // empty, by node. Leaves out workers that are not named.
  template <class Visit>
  void visit_capacities(std::span<const NodeId> nodes, Visit visit) const {
    for (const NodeId node : nodes)
      if (const NodeCapacity* named = capacity(node)) visit(*named);
    if (!nodes.empty()) return;
    for (const auto& [node, worker] : workers_)
      if (shows_capacity(node, worker)) visit(worker.capacity);
  }
  // Returns the users whose blocks were added to the index since the last call.
  std::vector<std::string> take_users() { return std::exchange(users_, {}); }
  std::size_t syncing() const;  // workers whose inventory is being walked
  std::string check_bounds() const;

 private:
  struct Removal {
    std::uint64_t sequence = 0;
    BlockVersion block;
  };
  struct Worker {
    bool followed = false;  // true once `incarnation` and `applied` come from a message
    Incarnation incarnation = 0;
    std::uint64_t applied = 0;  // highest sequence applied
    // While walking, `removals` has all removals after this sequence.
    std::uint64_t complete_from = 0;
    std::deque<Removal> removals;
    std::map<std::uint64_t, CacheChanges> early;  // by sequence, all beyond applied + 1
    Instant early_since;
    bool walking = false, walk_again = false;
    bool missed = false;      // since the walk began the index was too full for one of its blocks
    std::uint64_t after = 0;  // `after` of the walk's latest request
    Instant requested_at;
    Incarnation requested_of = 0;  // incarnation named in the latest request; 0 = any
    bool lost = false;             // reported lost, and not heard since
    Instant heard;
    NodeCapacity capacity;
  };

  void start_following(NodeId node, Worker& worker, Incarnation incarnation, std::uint64_t sequence);
  void add(NodeId node, Worker& worker, BlockEntry&& block);
  void apply(NodeId node, Worker& worker, CacheChanges&& changes);
  void apply_early(Instant now, NodeId node, Worker& worker);
  void keep_early(Instant now, NodeId node, Worker& worker, CacheChanges&& changes, Effects& effects);
  void close_gap(Instant now, NodeId node, Worker& worker, Effects& effects);
  void take_part(NodeId node, Worker& worker, InventoryPart&& part);
  void walk(Instant now, NodeId node, Worker& worker, Effects& effects);
  void end_walk(Instant now, NodeId node, Worker& worker, Effects& effects);
  void ask(Instant now, NodeId node, Worker& worker, Effects& effects);
  void note_heard(Instant now, NodeId node, Worker& worker);
  void forget(NodeId node, Worker& worker);
  bool shows_capacity(NodeId node, const Worker& worker) const;

  FollowConfig config_;
  BlockIndex& index_;
  std::map<NodeId, Worker> workers_;
  std::vector<std::string> users_;  // returned by the next take_users()
};

}  // namespace troupe::actors
