#pragma once
// How the index keeps up with the KV-cache workers. Each worker numbers its CacheChanges; as long as none is
// missing they are simply applied. After a gap, a new incarnation or a first meeting the worker's inventory
// is walked, a part at a time, while changes are applied on; what neither a part nor a change has shown since
// the walk began is stale when it ends, like all that a former incarnation had, and swept a little at a time.
//
// Messages may overtake each other. Changes that come early wait a moment for those before them; if these do
// not come there is a gap, and a walk follows. A change that is older than one applied is ignored. A part
// that is older than changes applied is taken without what those removed; if what they removed is not known
// any more it is asked for again.
//
// A worker that is silent for 3 heartbeats, or said to be lost, is not named in answers; its blocks are kept
// for a while, so that a short pause costs nothing.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/cache_meta/block_index.h"
#include "runtime/actor/core.h"
#include "runtime/pool/pool_areas.h"

namespace troupe::actors {

struct FollowConfig {
  std::vector<NodeId> nodes;  // nobody else is believed
  Duration silent_after{600'000};
  Duration forget_after{30'000'000};  // of silence
  Duration inventory_retry{400'000};  // a request without an answer is repeated
  bool is_unknown =
      false;  // to workers, who have to be asked before they tell: this node joined their cluster
  std::size_t removals_max = 1'024;  // remembered per walk
  Duration gap_after{100'000};       // so long early changes wait for those before them
  std::size_t early_max = 64;        // of them wait per worker
  std::size_t swept_per_message = 256, swept_per_tick = 4'096;  // holdings looked at, if any may be stale
};

class FollowedWorkers {
 public:
  struct Room {
    NodeId node = 0;
    std::vector<AreaRoom> areas;  // as of CacheChanges
    AreaRoom of(
        SegmentKind kind) const;  // of the area where blocks of this kind live; nothing before it is told
    AreaRoom all() const;
  };

  FollowedWorkers(FollowConfig config, BlockIndex& index);

  void start(Instant now, Effects& effects);  // asks everybody for the inventory
  // Other nodes from now on. Those that come are asked for their inventory, what others had is forgotten.
  void follow(Instant now, const std::vector<NodeId>& nodes, Effects& effects);
  bool knows(NodeId node) const { return workers_.contains(node); }
  // From nodes that are known only. False if the message makes no sense.
  bool on_changes(Instant now, NodeId node, const CacheChanges& changes, Effects& effects);
  bool on_part(Instant now, NodeId node, const InventoryPart& part, Effects& effects);
  void on_lost(NodeId node);
  void excuse(Duration deaf);                   // they were not heard for so long because nobody listened
  void on_tick(Instant now, Effects& effects);  // at least once per heartbeat: retries, silence

  std::optional<Room> room(NodeId node) const;  // of a worker that is named
  // Users of whom blocks came into the index since the last call.
  std::vector<std::string> take_users() { return std::exchange(users_, {}); }
  std::vector<Room> rooms() const;  // of all that are, by node
  std::size_t syncing() const;      // workers whose inventory is being walked
  std::string check_bounds() const;

 private:
  struct Removal {
    std::uint64_t sequence = 0;
    BlockVersion block;
  };
  struct Worker {
    bool followed = false;  // `incarnation` and `applied` are those of a message
    Incarnation incarnation = 0;
    std::uint64_t applied = 0;        // the highest sequence
    std::uint64_t complete_from = 0;  // all removals after this sequence are in `removals`, while walking
    std::deque<Removal> removals;
    std::map<std::uint64_t, CacheChanges> early;  // by sequence, all beyond applied + 1
    Instant early_since;
    bool walking = false, walk_again = false;
    bool missed = false;      // the index was too full for something of it since the walk began
    std::uint64_t after = 0;  // what the walk asked for last
    Instant asked;
    Incarnation asked_of = 0;  // 0: any
    bool lost = false;         // said to be, and not heard since
    Instant heard;
    Room room;
  };

  void meet(NodeId node, Worker& worker, Incarnation incarnation, std::uint64_t sequence);
  void add(NodeId node, Worker& worker, const BlockEntry& block);
  void apply(NodeId node, Worker& worker, const CacheChanges& changes);
  void apply_early(Instant now, NodeId node, Worker& worker);
  void wait_early(Instant now, NodeId node, Worker& worker, const CacheChanges& changes, Effects& effects);
  void close_gap(Instant now, NodeId node, Worker& worker, Effects& effects);
  void take_part(NodeId node, Worker& worker, const InventoryPart& part);
  void walk(Instant now, NodeId node, Worker& worker, Effects& effects);
  void end_walk(Instant now, NodeId node, Worker& worker, Effects& effects);
  void ask(Instant now, NodeId node, Worker& worker, Effects& effects);
  void hear(Instant now, NodeId node, Worker& worker);
  void forget(NodeId node, Worker& worker);
  bool shows_room(NodeId node, const Worker& worker) const;

  FollowConfig config_;
  BlockIndex& index_;
  std::map<NodeId, Worker> workers_;
  std::vector<std::string> users_;  // to be taken
};

}  // namespace troupe::actors
