// Draws requests whose candidates come mostly from one group of items, for experiments that place
// items by how often they are requested together (RcLLM).
#include "deploy/lab/experiments/grouped_requests.h"

#include <algorithm>
#include <cmath>

#include "deploy/lab/traces/trace_draw.h"
#include "sim/base/quantile.h"
#include "sim/base/random.h"

namespace troupe::deploy {
namespace {

constexpr std::uint64_t stream = 0x6709;
constexpr double least = 0.5, most = 1.75;  // limits of the number of candidates, over the median
constexpr int draws_max = 40;               // draws of one candidate before the next free item is taken

}  // namespace

GroupedRequests::GroupedRequests(const GroupedOptions& options)
    : options_(options),
      random_(options.seed, stream),
      groups_(std::max(1U, options.items / std::max(1U, options.group_items))),
      group_(groups_, options.group_skew),
      member_(std::max(1U, options.items / groups_), options.item_skew) {}

std::uint32_t GroupedRequests::draw_count() {
  const double median = options_.candidates;
  const double drawn =
      options_.candidates_sigma > 0 ? draw_log_normal(random_, median, options_.candidates_sigma) : median;
  const auto count =
      static_cast<std::uint32_t>(std::lround(std::clamp(drawn, least * median, most * median)));
  return std::min(std::max(1U, count), options_.items);
}

std::uint32_t GroupedRequests::draw_item(std::uint64_t group) {
  const std::uint64_t of = sim::chance(random_, options_.share) ? group : group_.draw(random_);
  const std::uint32_t each = options_.items / groups_;
  return static_cast<std::uint32_t>(of * each + member_.draw(random_));
}

std::vector<placement::ItemNumber> GroupedRequests::next_items() {
  const std::uint64_t group = group_.draw(random_);
  std::vector<placement::ItemNumber> items(draw_count());
  taken_.clear();
  for (placement::ItemNumber& item : items) {
    item = draw_item(group);
    for (int draws = 1; taken_.contains(item) && draws < draws_max; ++draws) item = draw_item(group);
    while (!taken_.insert(item).second) item = (item + 1) % options_.items;
  }
  return items;
}

bool GroupedRequests::next(TracedRequest& request) {
  at_s_ -= std::log(sim::unit(random_)) / options_.per_second;
  request = {};
  request.at = {std::llround(at_s_ * 1e6)};
  request.user = sim::WorldData::user_id(asked_++ % options_.users);
  for (const placement::ItemNumber item : next_items())
    request.candidates.push_back(sim::WorldData::item_id(item));
  return true;
}

placement::Requests take(GroupedRequests& requests, std::size_t count) {
  placement::Requests drawn;
  for (std::size_t i = 0; i < count; ++i) drawn.add(requests.next_items());
  return drawn;
}

BestShares best_shares(const placement::Placement& placement, const placement::Requests& requests) {
  std::vector<double> shares;
  double sum = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto items = requests.at(i);
    std::ptrdiff_t best = 0;
    for (std::size_t node = 0; node < placement.nodes().size(); ++node)
      best = std::max(best, std::ranges::count_if(items, [&](placement::ItemNumber item) {
                        return placement.holds(node, item);
                      }));
    shares.push_back(static_cast<double>(best) / static_cast<double>(items.size()));
    sum += shares.back();
  }
  if (shares.empty()) return {};
  return {sum / static_cast<double>(shares.size()), sim::quantile_in_place(shares, 0.5)};
}

}  // namespace troupe::deploy
