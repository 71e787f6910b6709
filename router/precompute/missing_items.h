#pragma once
// What belongs where and is not there: the items whose blocks are still to be brought to a node, in the order
// in which that is done, and what is held against them. With places an item is here once for each node where
// its block belongs and is not: computed by the first, pulled from there by the others. Without, once, for
// any node.
//
// Some item may kill whoever computes it, so each has a blame, by item, that counts wherever it is to be and
// in later walks; with a blame of `blame_most` it is given up.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "router/precompute/current_places.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

struct WantedItem {
  Item item;
  std::uint32_t together_max = 0;  // items of a chunk that this one may be part of; 0: not a suspect
  std::uint32_t blame = 0;         // for lost workers, and for what it did by itself
  NodeId node = 0;                 // where it belongs; 0: anywhere
  NodeId at = 0;                   // who has it; 0: nobody
  bool refreshed = false;          // not of the walk: it may displace others there
};

class MissingItems {
 public:
  static constexpr std::uint32_t blame_most = 6;

  MissingItems(const CurrentPlaces& places, std::uint32_t chunk_tokens, std::uint32_t blamed_max)
      : places_(places), chunk_tokens_(chunk_tokens), blamed_max_(blamed_max) {}

  // ---- what belongs where ----
  struct Seen {
    WantedItem wanted;
    std::span<const NodeId> holders;
    bool somewhere = false;  // somebody has it, named or not
  };
  // `takes`: whether a node may have it now; `alive`: whether a holder can be asked for it; `has`: a node at
  // all; `leaves`: what it has counts for nothing, but that it can be asked for.
  struct Fleet {
    std::function<bool(NodeId, bool refreshed)> takes;
    std::function<bool(NodeId)> alive, has, leaves;
  };
  void add(const std::vector<Seen>& seen, const Fleet& fleet);

  // ---- in order ----
  bool empty() const { return list_.empty(); }
  std::size_t size() const { return list_.size(); }
  const WantedItem& front() const { return list_.front(); }
  // The first of them and what goes with it: for the same node, in the same way, together with as few.
  std::vector<WantedItem> take_chunk();
  void give_back(const std::vector<WantedItem>& items);   // they are missing still, and come first
  void put_behind(const std::vector<WantedItem>& items);  // they are missing still; others first
  bool put_node_behind(NodeId node);                      // false: there are no others
  void leave_out(NodeId node, bool refreshed);
  void drop(const std::string& item);
  void keep_refreshed();  // what the walk wanted is given up
  void clear() { list_.clear(); }

  // ---- what is held against them ----
  void remember(const WantedItem& wanted);
  void absolve(const std::string& item) { blamed_.erase(item); }
  void absolve_all() { blamed_.clear(); }
  std::size_t blamed() const { return blamed_.size(); }

 private:
  struct Blame {
    std::uint32_t together_max = 0, blame = 0;
  };
  void find_missing(const Seen& seen, const Fleet& fleet, std::vector<WantedItem>& missing) const;
  void recall(WantedItem& wanted) const;

  const CurrentPlaces& places_;
  std::uint32_t chunk_tokens_, blamed_max_;
  std::deque<WantedItem> list_;
  std::map<std::string, Blame> blamed_;  // suspects and what was given up, by item, of this model and catalog
};

}  // namespace troupe::router
