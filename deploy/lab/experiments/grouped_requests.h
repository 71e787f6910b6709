#pragma once
// Requests whose candidates belong together, for the experiments of papers that place items by what is asked
// for together (RcLLM, Algorithm 1): the catalog is cut into groups of equal size, a request is about one
// group, and a share of its candidates comes from it; the others come from any group. Groups and the items of
// each are asked for by Zipf's law.
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "placement/assignment/local_share.h"
#include "runtime/actor/traced_request.h"
#include "sim/base/sim_random.h"
#include "sim/world/world_data.h"

namespace troupe::deploy {

struct GroupedOptions {
  std::uint32_t items = 10'000, group_items = 100, users = 10'000;
  double share = 0.9;  // of the candidates, from the request's group
  double group_skew = 0.6, item_skew = 0.8;
  std::uint32_t candidates = 20;  // the median; log-normal, between half and 1.75 times of it
  double candidates_sigma = 0;
  double per_second = 1;  // Poisson
  std::uint64_t seed = 1;
};

class GroupedRequests {
 public:
  explicit GroupedRequests(const GroupedOptions& options);

  bool next(TracedRequest& request);  // always true; each of another user until all have been
  std::vector<placement::ItemNumber> next_items();

 private:
  std::uint32_t draw_count();
  std::uint32_t draw_item(std::uint64_t group);

  GroupedOptions options_;
  SimRandom random_;
  std::uint32_t groups_;
  sim::Zipf group_, member_;
  double at_s_ = 0;
  std::uint64_t asked_ = 0;
  std::unordered_set<std::uint32_t> taken_;
};

// The next `count` of them.
placement::Requests take(GroupedRequests& requests, std::size_t count);

// Of each request the share of its items that the node with most of them has: the mean and the median.
struct BestShares {
  double mean = 0, median = 0;
};
BestShares best_shares(const placement::Placement& placement, const placement::Requests& requests);

}  // namespace troupe::deploy
