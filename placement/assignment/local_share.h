#pragma once
// Measures what a placement is worth: the share of item accesses that find the item on the node
// where the request runs. The share is predicted from an access distribution for requests that run
// on a random node. It is counted over drawn or recorded requests, also for requests that run where
// most of their items are.
#include <cstdint>
#include <span>
#include <vector>

#include "placement/assignment/placement.h"
#include "placement/popularity/access_distribution.h"

namespace troupe::placement {

struct ExpectedShares {  // shares of all item accesses
  double everywhere = 0, sharded = 0, nowhere = 0;
  double busiest = 0;  // accesses to the sharded items of the node with the most such accesses
  double local = 0;    // found locally, if a request runs on each node with equal probability
  double pulled = 0;   // pulled from another node, likewise; the remaining accesses are computed
};
ExpectedShares expected_shares(const Placement& placement, const AccessDistribution& accesses);

// The items of several requests, one request after the other.
struct Requests {
  std::vector<ItemNumber> items;
  std::vector<std::uint64_t> ends;  // end of each request in `items`

  std::size_t size() const { return ends.size(); }
  std::span<const ItemNumber> at(std::size_t request) const {
    const std::uint64_t begin = request == 0 ? 0 : ends[request - 1];
    return std::span(items).subspan(begin, ends[request] - begin);
  }
  void add(std::span<const ItemNumber> request);
};
// Draws requests whose candidates are independent of each other.
Requests draw_requests(const AccessDistribution& accesses, std::size_t count, std::size_t candidates,
                       std::uint64_t seed);

// Shares of all item accesses, unless said otherwise; 0 if there are no requests.
struct CountedShares {
  double any = 0;  // found locally, if each request runs on a random node
  // found locally, if each request runs where most of its items are; ties are broken at random
  double best = 0;
  double cached = 0;   // the item is on at least one node
  double busiest = 0;  // share of the requests that run on the node that is most often the best
};
// Counts shares over the requests. Each request runs `rounds` times, each time on a newly drawn
// node.
CountedShares count_shares(const Placement& placement, const Requests& requests, std::uint64_t seed,
                           std::size_t rounds = 1);

}  // namespace troupe::placement
