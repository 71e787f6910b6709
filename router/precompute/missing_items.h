#pragma once
// List of the item blocks that still have to be brought to a node, in order, with the blame of each
// item. With an assignment, an item has one entry for each node where its block belongs and is
// missing: the first computes it, the others pull it from there. Without one, it has one entry, for
// any node.
//
// An item may kill the worker that computes it. So each item has a blame, which counts for all its
// nodes and in later walks. At a blame of `blame_most` the item is given up.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "router/precompute/current_assignment.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

struct WantedItem {
  Item item;
  // maximum chunk size, in items, that this one may be part of; 0 = not a suspect
  std::uint32_t together_max = 0;
  std::uint32_t blame = 0;  // for lost workers, and for failures of the item alone
  NodeId node = 0;          // where it belongs; 0 = anywhere
  NodeId at = 0;            // node that has it; 0 = none
  bool refreshed = false;   // not from the walk: it may evict other blocks there
};

class MissingItems {
 public:
  static constexpr std::uint32_t blame_most = 6;

  MissingItems(const CurrentAssignment& places, std::uint32_t chunk_tokens, std::uint32_t blamed_max)
      : assignment_(places), chunk_tokens_(chunk_tokens), blamed_max_(blamed_max) {}

  // ---- what belongs where ----
  struct LookedUpItem {
    WantedItem wanted;
    std::span<const NodeId> holders;
    bool somewhere = false;  // some node has it, named or not
  };
  // Predicates on nodes. `takes`: accepts the block now; `alive`: can be asked for a block; `has`:
  // is a known node; `leaves`: its blocks do not count as present, but can be pulled.
  struct NodePredicates {
    std::function<bool(NodeId, bool refreshed)> takes;
    std::function<bool(NodeId)> alive, has, leaves;
  };
  void add(const std::vector<LookedUpItem>& seen, const NodePredicates& fleet);

  // ---- in order ----
  bool empty() const { return list_.empty(); }
  std::size_t size() const { return list_.size(); }
  const WantedItem& front() const { return list_.front(); }
  // Removes and returns the first entry and those that go with it: same node, same way, equally
  // small chunk.
  std::vector<WantedItem> take_chunk();
  void give_back(const std::vector<WantedItem>& items);   // still missing, and first again
  void put_behind(const std::vector<WantedItem>& items);  // still missing, after all others
  bool put_node_behind(NodeId node);                      // false = no other node's entries exist
  void leave_out(NodeId node, bool refreshed);
  void drop(const std::string& item);
  void keep_refreshed();  // drops the entries of the walk
  void clear() { list_.clear(); }

  // ---- what is held against them ----
  void remember(const WantedItem& wanted);
  void clear_blame(const std::string& item) { blamed_.erase(item); }
  void clear_all_blame() { blamed_.clear(); }
  std::size_t blamed() const { return blamed_.size(); }

 private:
  struct Blame {
    std::uint32_t together_max = 0, blame = 0;
  };
  void find_missing(const LookedUpItem& seen, const NodePredicates& fleet,
                    std::vector<WantedItem>& missing) const;
  void recall(WantedItem& wanted) const;

  const CurrentAssignment& assignment_;
  std::uint32_t chunk_tokens_, blamed_max_;
  std::deque<WantedItem> list_;
  std::map<std::string, Blame> blamed_;  // suspects and given-up items, by item, for this model and catalog
};

}  // namespace troupe::router
