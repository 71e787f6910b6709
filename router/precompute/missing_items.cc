// Lists the item blocks that nodes still lack and hands them out for computing or pulling. Also
// counts how often each item's work was lost, and gives up items that may kill workers.
#include "router/precompute/missing_items.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace troupe::router {

// Sorts by node; items to pull come after all items to compute.
void MissingItems::add(const std::vector<LookedUpItem>& seen, const NodePredicates& fleet) {
  std::vector<WantedItem> missing;
  for (const LookedUpItem& one : seen) find_missing(one, fleet, missing);
  std::ranges::stable_sort(missing, {}, [](const WantedItem& w) {
    return std::tuple(w.at != 0, w.node, w.together_max, w.refreshed);
  });
  std::ranges::move(missing, std::back_inserter(list_));
}

// Adds an entry for each node where the item belongs and is missing. If no node has it, one of them
// computes it: the choice follows the item's key, among those that take chunks now.
void MissingItems::find_missing(const LookedUpItem& seen, const NodePredicates& fleet,
                                std::vector<WantedItem>& missing) const {
  WantedItem item = seen.wanted;
  recall(item);
  if (item.blame >= blame_most) return;
  if (!assignment_.planned()) {
    const bool all_leave = !seen.holders.empty() && std::ranges::all_of(seen.holders, fleet.leaves);
    const auto leaving = std::ranges::find_if(seen.holders, fleet.alive);
    if (all_leave && leaving != seen.holders.end()) item.at = *leaving;
    if (!seen.somewhere || all_leave) missing.push_back(std::move(item));
    return;
  }
  std::vector<NodeId> nodes = assignment_.nodes_of(item.item.id);
  item.refreshed = item.refreshed || assignment_.is_hot(item.item.id);
  std::erase_if(nodes, [&](NodeId node) {
    return std::ranges::find(seen.holders, node) != seen.holders.end() || !fleet.has(node);
  });
  if (nodes.empty()) return;
  const auto turns = static_cast<std::ptrdiff_t>(placement::item_key(item.item.id) % nodes.size());
  std::ranges::rotate(nodes, nodes.begin() + turns);
  std::ranges::stable_partition(nodes, [&](NodeId node) { return fleet.takes(node, item.refreshed); });
  const auto holder = std::ranges::find_if(seen.holders, fleet.alive);
  item.at = holder != seen.holders.end() ? *holder : 0;
  for (const NodeId node : nodes) {
    item.node = node;
    missing.push_back(item);
    if (item.at == 0) item.at = node;
  }
}

std::vector<WantedItem> MissingItems::take_chunk() {
  const std::uint32_t together_max = list_.front().together_max;
  const NodeId node = list_.front().node;
  const bool computed = list_.front().at == 0, refreshed = list_.front().refreshed;
  std::vector<WantedItem> items;
  std::size_t tokens = 0;
  while (!list_.empty() && list_.front().together_max == together_max && list_.front().node == node &&
         (list_.front().at == 0) == computed && list_.front().refreshed == refreshed) {
    tokens += list_.front().item.tokens.size();
    if (!items.empty() && tokens > chunk_tokens_) break;
    if (together_max > 0 && items.size() >= together_max) break;
    items.push_back(std::move(list_.front()));
    list_.pop_front();
  }
  return items;
}

void MissingItems::give_back(const std::vector<WantedItem>& items) {
  list_.insert(list_.begin(), items.begin(), items.end());
}

void MissingItems::put_behind(const std::vector<WantedItem>& items) {
  std::ranges::copy(items, std::back_inserter(list_));
}

bool MissingItems::put_node_behind(NodeId node) {
  const auto its = std::ranges::stable_partition(list_, [&](const WantedItem& w) { return w.node != node; });
  return its.size() < list_.size();
}

void MissingItems::leave_out(NodeId node, bool refreshed) {
  std::erase_if(list_, [&](const WantedItem& w) { return w.node == node && w.refreshed <= refreshed; });
}

void MissingItems::drop(const std::string& item) {
  std::erase_if(list_, [&](const WantedItem& wanted) { return wanted.item.id == item; });
}

void MissingItems::keep_refreshed() {
  std::erase_if(list_, [](const WantedItem& wanted) { return !wanted.refreshed; });
}

// At the limit the first by name are forgotten: they count as innocent until they fail again.
void MissingItems::remember(const WantedItem& wanted) {
  blamed_[wanted.item.id] = {wanted.together_max, wanted.blame};
  if (blamed_.size() > blamed_max_) {
    const auto first = blamed_.begin();
    blamed_.erase(first->first == wanted.item.id ? std::next(first) : first);
  }
  for (WantedItem& other : list_)
    if (other.item.id == wanted.item.id) recall(other);
}

void MissingItems::recall(WantedItem& wanted) const {
  const auto known = blamed_.find(wanted.item.id);
  if (known == blamed_.end()) return;
  wanted.together_max = known->second.together_max;
  wanted.blame = known->second.blame;
}

}  // namespace troupe::router
