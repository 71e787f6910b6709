#pragma once
// Decides on which nodes item blocks belong now. The base is the plan. Blocks of hot items belong
// on all nodes (BAT §5.2, step 3). Blocks of a node that has been away for long belong on others
// until it is back. Each router decides this by itself from the candidates that it sees. They are a
// fair sample, and a few hundred accesses show a burst sooner than a leader's message could. If two
// routers disagree, at most a few blocks are pulled too many or too few.
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "placement/popularity/hot_items.h"
#include "router/precompute/item_assignment.h"
#include "router/precompute/replication.h"
#include "runtime/actor/core.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

struct RefreshConfig {
  // share of the item accesses from which an item is hot; 0 = none is. Not used if `replication` decides
  double hot_share = 0.001;
  std::uint32_t window = 32'768;    // accesses that count
  Duration away_after{30'000'000};  // of silence; about when the index forgets a node's blocks
  ReplicationConfig replication = {};
};

class CurrentAssignment {
 public:
  // Without a plan no item belongs to any node.
  CurrentAssignment(const RefreshConfig& config, std::shared_ptr<const ItemAssignment> plan);

  bool planned() const { return plan_ != nullptr; }
  void follow(const std::vector<NodeId>& nodes);  // replaces the plan's nodes
  // Replaces the plan by another one for the same nodes. Returns false if it is for others.
  bool replace(std::shared_ptr<const ItemAssignment> plan);
  std::vector<NodeId> nodes_of(const std::string& item) const;
  bool is_hot(std::string_view item) const;

  // Records a request's candidate. Returns true if its block must be brought to all nodes that lack
  // it: it became hot, or is hot with new content, or has been hot so long that some node may have
  // evicted it.
  bool touch(const ItemView& item);
  // Counts the items of the latest window by their accesses, most accesses first; empty = none became
  // known, or no item becomes hot.
  std::vector<placement::AccessClass> accesses() const;
  // From now on an item is hot with so many accesses of the window; 0 = none is.
  void set_hot_count(std::uint64_t accesses);
  // Called periodically for each node. Returns true if the node has just become away, or is back.
  bool see(Instant now, NodeId node, bool alive);

  bool is_away(NodeId node) const { return away_.contains(node); }  // other nodes stand in for it

  std::size_t nodes() const { return plan_ ? plan_->nodes().size() : 0; }
  std::size_t hot() const { return brought_.size(); }  // items on all nodes only because they are hot
  std::string check_bounds() const;

 private:
  NodeId stand_in(std::uint64_t key) const;

  Duration away_after_;
  std::shared_ptr<const ItemAssignment> plan_;  // null = no plan
  std::optional<placement::HotItems> hot_;      // nullopt = no item becomes hot
  struct HotCopy {
    BlockName block;
    std::uint64_t at = 0;  // access count at that time
  };
  std::unordered_map<std::uint64_t, HotCopy> brought_;  // hot items by key; looked up only, never iterated
  std::uint64_t accesses_ = 0, again_after_;
  std::map<NodeId, Instant> silent_since_;
  std::set<NodeId> away_;
};

}  // namespace troupe::router
