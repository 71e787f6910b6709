// Measures a placement of items: the share of item accesses that find the item on the node where
// the request runs.
#include "placement/assignment/local_share.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"

namespace troupe::placement {

ExpectedShares expected_shares(const Placement& placement, const AccessDistribution& accesses) {
  TROUPE_CHECK(placement.items() == accesses.items(), "accesses and placement describe the same catalog");
  ExpectedShares shares;
  std::vector<double> nodes(placement.nodes().size());
  for (std::uint64_t rank = 0; rank < accesses.items(); ++rank) {
    const double share = accesses.share_at(rank);
    const NodeIndex place = placement.place(accesses.item_at(rank));
    if (place == everywhere) {
      shares.everywhere += share;
    } else if (place == nowhere) {
      shares.nowhere += share;
    } else {
      nodes[place] += share;
      shares.sharded += share;
    }
  }
  shares.busiest = *std::ranges::max_element(nodes);
  const double at_home = shares.sharded / static_cast<double>(nodes.size());
  shares.local = shares.everywhere + at_home;
  shares.pulled = shares.sharded - at_home;
  return shares;
}

void Requests::add(std::span<const ItemNumber> request) {
  items.insert(items.end(), request.begin(), request.end());
  ends.push_back(items.size());
}

Requests draw_requests(const AccessDistribution& accesses, std::size_t count, std::size_t candidates,
                       std::uint64_t seed) {
  Requests requests;
  requests.items.reserve(count * candidates);
  std::uint64_t state = spread(seed);
  for (std::size_t request = 0; request < count; ++request) {
    for (std::size_t i = 0; i < candidates; ++i)
      requests.items.push_back(accesses.draw(state = spread(state)));
    requests.ends.push_back(requests.items.size());
  }
  return requests;
}

namespace {

class ShareCounter {
 public:
  ShareCounter(const Placement& placement, std::uint64_t seed)
      : placement_(placement),
        state_(spread(seed)),
        here_(placement.nodes().size()),
        ran_(placement.nodes().size()) {}

  void look_at(std::span<const ItemNumber> request) {
    std::ranges::fill(here_, 0);
    std::uint64_t all = 0, missing = 0;
    for (const ItemNumber item : request) {
      const NodeIndex place = placement_.place(item);
      if (place == everywhere) {
        ++all;
      } else if (place == nowhere) {
        ++missing;
      } else {
        ++here_[place];
      }
    }
    const std::size_t drawn = (state_ = spread(state_)) % here_.size(), best = best_node(drawn);
    accesses_ += request.size();
    cached_ += request.size() - missing;
    any_ += all + here_[drawn];
    best_ += all + here_[best];
    ++ran_[best];
  }

  CountedShares shares() const {
    if (accesses_ == 0) return {};
    std::uint64_t requests = 0;
    for (const std::uint64_t ran : ran_) requests += ran;
    const auto share = [](std::uint64_t part, std::uint64_t of) {
      return static_cast<double>(part) / static_cast<double>(of);
    };
    return {share(any_, accesses_), share(best_, accesses_), share(cached_, accesses_),
            share(*std::ranges::max_element(ran_), requests)};
  }

 private:
  std::size_t best_node(std::size_t first) const {
    std::size_t best = first;
    for (std::size_t i = 1; i < here_.size(); ++i) {
      const std::size_t node = (first + i) % here_.size();
      if (here_[node] > here_[best]) best = node;
    }
    return best;
  }

  const Placement& placement_;
  std::uint64_t state_;
  std::vector<std::uint64_t> here_, ran_;  // by node: items of the current request; requests run
  std::uint64_t accesses_ = 0, cached_ = 0, any_ = 0, best_ = 0;
};

}  // namespace

CountedShares count_shares(const Placement& placement, const Requests& requests, std::uint64_t seed,
                           std::size_t rounds) {
  ShareCounter counter(placement, seed);
  for (std::size_t round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < requests.size(); ++i) counter.look_at(requests.at(i));
  return counter.shares();
}

}  // namespace troupe::placement
