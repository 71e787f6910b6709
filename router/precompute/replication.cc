// Applies Algorithm 1 of BAT to what a router has measured: from how many accesses on an item's block
// belongs on all workers.
#include "router/precompute/replication.h"

#include <algorithm>
#include <cmath>

#include "placement/popularity/hot_items.h"

namespace troupe::router {
namespace {

constexpr double keep_per_request = 0.999;
constexpr std::uint32_t first_accesses = 256;  // of the first decision; fewer say little
constexpr std::uint32_t window_parts = 8;      // decisions per window, once it is full
constexpr std::uint64_t accesses_min = placement::HotItemsConfig{}.uses_min;
constexpr double pull_share_min = 1e-6;  // a link without any cost is still a number

}  // namespace

void RequestSizes::note(std::size_t candidates, std::uint64_t item_tokens, std::uint64_t user_tokens) {
  requests_ = requests_ * keep_per_request + 1;
  candidates_ = candidates_ * keep_per_request + static_cast<double>(candidates);
  item_tokens_ = item_tokens_ * keep_per_request + static_cast<double>(item_tokens);
  user_tokens_ = user_tokens_ * keep_per_request + static_cast<double>(user_tokens);
}

ReplicationDecision decide_replication(const ReplicationConfig& config, const RequestSizes& requests,
                                       const ServingSpeeds& speeds, std::size_t nodes,
                                       std::span<const placement::AccessClass> counted) {
  ReplicationDecision decision;
  const double c = requests.candidates(), item_tokens = requests.item_tokens();
  if (c <= 0 || item_tokens <= 0 || counted.empty() || !speeds.pace.known()) return decision;
  const double user_tokens = std::max(1.0, requests.user_tokens());
  const placement::UnitCosts& costs = speeds.costs;
  const placement::Work prefill = costs.computed(user_tokens, c * item_tokens) +
                                  costs.reused(c * item_tokens) + costs.readouts(1) + costs.passes(1);
  decision.is_measured = speeds.pulled_tokens_per_s > 0;
  const double pull_us =
      speeds.pace.us(costs.computed(item_tokens, 0)) * std::max(pull_share_min, speeds.pull_share);
  decision.tokens_per_s = decision.is_measured ? speeds.pulled_tokens_per_s : item_tokens / pull_us * 1e6;
  decision.ratio_max = placement::communication_ratio_max({.prefill_us = speeds.pace.us(prefill),
                                                           .alpha = config.alpha,
                                                           .tokens_per_s = decision.tokens_per_s,
                                                           .candidates = c,
                                                           .item_tokens = item_tokens,
                                                           .nodes = static_cast<std::uint32_t>(nodes)});
  // an average that is a whole number of pages but for rounding takes no page more
  const auto block_pages = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(item_tokens / config.page_tokens - 1e-6)));
  decision.threshold =
      placement::decide_threshold(decision.ratio_max, counted, nodes, block_pages, config.item_pages);
  for (const placement::AccessClass& next : counted) decision.accesses += next.accesses * next.items;
  if (decision.threshold.accesses > 0 && decision.threshold.accesses < accesses_min) {
    decision.threshold = {accesses_min, 0};
    for (const placement::AccessClass& next : counted)
      if (next.accesses >= accesses_min) decision.threshold.items += next.items;
  }
  return decision;
}

Replication::Replication(const ReplicationConfig& config, std::uint32_t window)
    : config_(config),
      every_(std::max(1U, window / window_parts)),
      next_at_(std::min(first_accesses, every_)) {}

void Replication::note(std::size_t candidates, std::uint64_t item_tokens, std::uint64_t user_tokens) {
  if (!config_.on || candidates == 0) return;
  accesses_ += candidates;
  requests_.note(candidates, item_tokens, user_tokens);
}

bool Replication::decide(const ServingSpeeds& speeds, std::size_t nodes,
                         std::span<const placement::AccessClass> counted) {
  next_at_ = accesses_ + std::min<std::uint64_t>(accesses_, every_);
  const ReplicationDecision decided = decide_replication(config_, requests_, speeds, nodes, counted);
  if (decided.accesses == 0) return false;
  decision_ = decided;
  return true;
}

}  // namespace troupe::router
