#pragma once
// Requests with related candidates, for experiments that place items by their co-occurrence (RcLLM,
// Algorithm 1). The catalog is cut into groups of equal size. A request draws one group, from which a share
// of its candidates comes; the others come from any group. Groups, and the items of each, are drawn by
// Zipf's law.
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "placement/assignment/local_share.h"
#include "runtime/actor/traced_request.h"
#include "sim/base/random_stream.h"
#include "sim/world/world_data.h"

namespace troupe::deploy {

struct GroupedOptions {
  std::uint32_t items = 10'000, group_items = 100, users = 10'000;
  double share = 0.9;                        // share of the candidates from the request's group
  double group_skew = 0.6, item_skew = 0.8;  // Zipf exponents
  std::uint32_t candidates = 20;  // median number; log-normal, cut to between 0.5 and 1.75 times the median
  double candidates_sigma = 0;
  double per_second = 1;  // Poisson arrivals
  std::uint64_t seed = 1;
};

class GroupedRequests {
 public:
  explicit GroupedRequests(const GroupedOptions& options);

  bool next(TracedRequest& request);  // always returns true; cycles through the users
  std::vector<placement::ItemNumber> next_items();

 private:
  std::uint32_t draw_count();
  std::uint32_t draw_item(std::uint64_t group);

  GroupedOptions options_;
  RandomStream random_;
  std::uint32_t groups_;
  sim::Zipf group_, member_;
  double at_s_ = 0;
  std::uint64_t asked_ = 0;
  std::unordered_set<std::uint32_t> taken_;
};

// Takes the candidates of the next `count` requests.
placement::Requests take(GroupedRequests& requests, std::size_t count);

// Share of a request's items on the node that has most of them: mean and median over the requests.
struct BestShares {
  double mean = 0, median = 0;
};
BestShares best_shares(const placement::Placement& placement, const placement::Requests& requests);

}  // namespace troupe::deploy
