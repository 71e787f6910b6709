#pragma once
// What a placement buys: the share of item accesses that find the item on the node where the request runs.
// Predicted from an access distribution, for requests that run on any node; and counted over requests, drawn
// or real, also for requests that run where most of their items are.
#include <cstdint>
#include <span>
#include <vector>

#include "placement/assignment/placement.h"
#include "placement/popularity/access_distribution.h"

namespace troupe::placement {

struct ExpectedShares {  // of all item accesses
  double everywhere = 0, sharded = 0, nowhere = 0;
  double busiest = 0;  // to the sharded items of the node with most of them
  double local = 0;    // if each request runs on any node, all equally likely
  double pulled = 0;   // likewise; the rest is computed
};
ExpectedShares expected_shares(const Placement& placement, const AccessDistribution& accesses);

// The items of one request after the other.
struct Requests {
  std::vector<ItemNumber> items;
  std::vector<std::uint64_t> ends;  // of each request, in items

  std::size_t size() const { return ends.size(); }
  std::span<const ItemNumber> at(std::size_t request) const {
    const std::uint64_t begin = request == 0 ? 0 : ends[request - 1];
    return std::span(items).subspan(begin, ends[request] - begin);
  }
  void add(std::span<const ItemNumber> request);
};
// Each of the candidates drawn by itself.
Requests draw_requests(const AccessDistribution& accesses, std::size_t count, std::size_t candidates,
                       std::uint64_t seed);

struct CountedShares {  // of all item accesses; 0 if there are no requests
  double any = 0;       // local, if each request runs on a node drawn at random
  double best = 0;      // local, if each runs where most of its items are; ties at random
  double cached = 0;    // the item is somewhere
  double busiest = 0;   // of all requests, on the node that is the best one most often
};
// Each request so many times, each time on another node.
CountedShares count_shares(const Placement& placement, const Requests& requests, std::uint64_t seed,
                           std::size_t rounds = 1);

}  // namespace troupe::placement
