#pragma once
// Where item blocks belong at the moment: where the plan has them, but those of hot items on all nodes (BAT
// §5.2, step 3), and those of a node that has been away for long on others until it is back. Each router
// decides this for itself, by the candidates that it sees: they are a fair sample, a few hundred accesses
// show a burst before any message of a leader could, and where two routers disagree a block too many or too
// few is pulled.
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "placement/popularity/hot_items.h"
#include "router/precompute/item_places.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

struct RefreshConfig {
  double hot_share = 0.001;         // of the item accesses: from here on an item is hot; 0: none is
  std::uint32_t window = 32'768;    // accesses that count
  Duration away_after{30'000'000};  // of silence: about when the index forgets a node's blocks
};

class CurrentPlaces {
 public:
  // Without a plan nothing belongs anywhere.
  CurrentPlaces(const RefreshConfig& config, std::shared_ptr<const ItemPlaces> plan);

  bool planned() const { return plan_ != nullptr; }
  void follow(const std::vector<NodeId>& nodes);  // the plan is for these from now on
  std::vector<NodeId> nodes_of(const std::string& item) const;
  bool is_hot(std::string_view item) const;

  // A request's candidate. True if its block has to be brought to all nodes that lack it: it has become hot,
  // or is hot with another content, or has been for a while and may have been displaced somewhere.
  bool touch(const ItemView& item);
  // Once in a while for each node. True if it is away from now on, or is back.
  bool see(Instant now, NodeId node, bool alive);

  bool is_away(NodeId node) const { return away_.contains(node); }  // others stand in for it

  std::size_t hot() const { return brought_.size(); }  // items that are on all nodes only for that
  std::string check_bounds() const;

 private:
  NodeId stand_in(std::uint64_t key) const;

  Duration away_after_;
  std::shared_ptr<const ItemPlaces> plan_;  // null: none
  std::optional<placement::HotItems> hot_;  // none: nothing is hot
  struct Brought {
    BlockName block;
    std::uint64_t at = 0;  // accesses by then
  };
  std::unordered_map<std::uint64_t, Brought> brought_;  // hot items, by key; looked up only
  std::uint64_t accesses_ = 0, again_after_;
  std::map<NodeId, Instant> silent_since_;
  std::set<NodeId> away_;
};

}  // namespace troupe::router
