// Maps each item to the node that keeps its precomputed block, or to all nodes or none. It follows
// the plan of `troupe-lab plan`; for unlisted items, a hash of the item decides.
#include "router/precompute/item_assignment.h"

#include <algorithm>
#include <utility>

namespace troupe::router {

ItemAssignment::ItemAssignment(std::vector<NodeId> nodes, Listed listed)
    : ItemAssignment(std::move(nodes), std::make_shared<const Listed>(std::move(listed))) {}

ItemAssignment::ItemAssignment(std::vector<NodeId> nodes, std::shared_ptr<const Listed> listed)
    : shards_(std::move(nodes)), listed_(std::move(listed)) {}

ItemAssignment ItemAssignment::replicated(std::vector<NodeId> nodes) {
  ItemAssignment places(std::move(nodes));
  places.all_everywhere_ = true;
  return places;
}

ItemAssignment ItemAssignment::over(std::vector<NodeId> nodes) const {
  ItemAssignment places(std::move(nodes));
  places.all_everywhere_ = all_everywhere_;
  const std::vector<NodeId>& there = places.nodes();
  if (listed_->empty() || there == this->nodes()) {
    places.listed_ = listed_;
    return places;
  }
  Listed listed;
  for (const auto& [item, place] : *listed_) {
    if (place == placement::everywhere || place == placement::nowhere) {
      listed[item] = place;
    } else if (const auto at = std::ranges::find(there, this->nodes()[place]); at != there.end()) {
      listed[item] = static_cast<placement::NodeIndex>(at - there.begin());
    }
  }
  places.listed_ = std::make_shared<const Listed>(std::move(listed));
  return places;
}

std::vector<NodeId> ItemAssignment::nodes_of(const std::string& item) const {
  const auto listed = listed_->find(item);
  const placement::NodeIndex place = all_everywhere_            ? placement::everywhere
                                     : listed != listed_->end() ? listed->second
                                                                : shards_.owner(placement::item_key(item));
  if (place == placement::everywhere) return shards_.nodes();
  if (place == placement::nowhere) return {};
  return {shards_.nodes()[place]};
}

}  // namespace troupe::router
