#include "router/request/held_blocks.h"

#include <algorithm>
#include <numeric>

namespace troupe::router {

double HeldBlocks::share_to_compute(std::span<const NodeId> holders, NodeId node) const {
  if (holders.empty()) return 1;
  return std::find(holders.begin(), holders.end(), node) != holders.end() ? 0 : pull_share_;
}

std::optional<HeldBlocks> HeldBlocks::of(BlocksFound found, std::size_t items, double pull_share) {
  const std::size_t holders =
      std::accumulate(found.item_counts.begin(), found.item_counts.end(), std::size_t{0});
  if (found.item_counts.size() != items || found.item_holders.size() != holders) return std::nullopt;
  return HeldBlocks(std::move(found), pull_share);
}

HeldBlocks::HeldBlocks(BlocksFound found, double pull_share)
    : found_(std::move(found)), pull_share_(pull_share) {
  begins_.reserve(found_.item_counts.size() + 1);
  begins_.push_back(0);
  for (const std::uint8_t count : found_.item_counts) begins_.push_back(begins_.back() + count);
}

std::span<const NodeId> HeldBlocks::item_holders(std::size_t item) const {
  return std::span(found_.item_holders).subspan(begins_.at(item), found_.item_counts.at(item));
}

NodeId HeldBlocks::best_holder(Prefix prefix) const {
  if (prefix == Prefix::user) return found_.user_holders.empty() ? 0 : found_.user_holders.front();
  if (prefix == Prefix::none) return 0;
  std::vector<NodeId> holders = found_.item_holders;
  std::sort(holders.begin(), holders.end());
  NodeId best = 0;
  std::ptrdiff_t most = 0;
  for (auto at = holders.begin(); at != holders.end();) {
    const auto next = std::upper_bound(at, holders.end(), *at);
    if (next - at > most) most = next - at, best = *at;
    at = next;
  }
  return best;
}

double HeldBlocks::missing_user(NodeId node) const { return share_to_compute(user_holders(), node); }

double HeldBlocks::missing_item(NodeId node, std::size_t item) const {
  return share_to_compute(item_holders(item), node);
}

double HeldBlocks::new_tokens(NodeId node, Prefix prefix, double user_tokens,
                              std::span<const ItemView> items) const {
  double tokens = user_tokens * (prefix == Prefix::user ? missing_user(node) : 1);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const double share = prefix == Prefix::item ? missing_item(node, i) : 1;
    tokens += share * static_cast<double>(items[i].tokens.size());
  }
  return tokens;
}

}  // namespace troupe::router
