// Derives from the index's answer for one request which nodes hold each block, and which fraction
// of a block's computation a node would still pay: none, a pull, or all. The cost of a plan on a
// node depends on this.
#include "router/request/held_blocks.h"

#include <algorithm>
#include <numeric>

#include "kernels/base/check.h"

namespace troupe::router {

std::optional<HeldBlocks> HeldBlocks::of(BlocksFound found, std::size_t asked, double pull_share) {
  const std::size_t holders = std::accumulate(found.counts.begin(), found.counts.end(), std::size_t{0});
  if (found.counts.size() != asked || found.uses.size() != asked || found.holders.size() != holders)
    return std::nullopt;
  return HeldBlocks(std::move(found), pull_share);
}

HeldBlocks::HeldBlocks(BlocksFound found, double pull_share)
    : found_(std::move(found)), pull_share_(pull_share) {
  index_holders();
}

void HeldBlocks::index_holders() {
  begins_.clear();
  begins_.reserve(found_.counts.size() + 1);
  begins_.push_back(0);
  for (const std::uint8_t count : found_.counts) begins_.push_back(begins_.back() + count);
}

std::span<const NodeId> HeldBlocks::holders(std::size_t block) const {
  return std::span(found_.holders).subspan(begins_.at(block), found_.counts.at(block));
}

double HeldBlocks::missing(std::size_t block, NodeId node) const {
  const std::span<const NodeId> nodes = holders(block);
  if (nodes.empty()) return 1;
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end() ? 0 : pull_share_;
}

void HeldBlocks::keep_only(const std::vector<bool>& kept) {
  TROUPE_CHECK(kept.size() == size(), "each block is kept or dropped");
  std::vector<NodeId> holders_kept;
  std::size_t next = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    const std::span<const NodeId> nodes = holders(i);
    holders_kept.insert(holders_kept.end(), nodes.begin(), nodes.end());
    found_.counts[next] = found_.counts[i];
    found_.uses[next++] = found_.uses[i];
  }
  found_.counts.resize(next);
  found_.uses.resize(next);
  found_.holders = std::move(holders_kept);
  index_holders();
}

NodeId HeldBlocks::best_holder(std::size_t first, std::size_t count) const {
  const auto begin = found_.holders.begin();
  std::vector<NodeId> nodes(begin + begins_.at(first), begin + begins_.at(first + count));
  std::sort(nodes.begin(), nodes.end());
  NodeId best = 0;
  std::ptrdiff_t most = 0;
  for (auto at = nodes.begin(); at != nodes.end();) {
    const auto next = std::upper_bound(at, nodes.end(), *at);
    if (next - at > most) most = next - at, best = *at;
    at = next;
  }
  return best;
}

std::vector<std::uint8_t> drop_missing_items(const Candidate& candidate, std::size_t first,
                                             const HeldBlocks& held,
                                             const std::function<bool(std::string_view item)>& is_made,
                                             std::vector<bool>& kept) {
  std::vector<std::uint8_t> missing;
  std::size_t block = first;
  for (std::size_t i = 0; i < candidate.blocks.size(); ++i) {
    if (!is_asked_for(candidate.blocks[i])) continue;
    const std::size_t at = block++;
    if (candidate.plan.segments[i].kind != SegmentKind::item) continue;
    missing.push_back(!held.is_kept(at) && is_made(candidate.blocks[i].owner) ? 1 : 0);
    if (missing.back() != 0) kept.at(at) = false;
  }
  if (std::ranges::find(missing, 1) == missing.end()) missing.clear();
  return missing;
}

}  // namespace troupe::router
