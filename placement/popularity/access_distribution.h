#pragma once
// How the accesses of a catalog spread over its items, hottest first: counted, or generated from a stated
// Zipf exponent (the item of rank r has a share in proportion to (r + 1)^-s; real catalogs lie near 0.5 to
// 0.7). This is the access CDF of BAT §5.2, step 2. A generated one stores nothing per item; a counted one
// 12 bytes.
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::placement {

using ItemNumber = std::uint32_t;  // place of an item in its catalog, from 0

class AccessDistribution {
 public:
  // counts[i]: accesses of item i. Equally hot items keep their order. Throws std::invalid_argument if there
  // are no items, more than 2^32 - 1, no accesses, or more than 2^63.
  static AccessDistribution from_counts(std::span<const std::uint64_t> counts);
  // Item i is the one of rank i. 1 to 2^32 - 1 items, exponent 0 to 10; else std::invalid_argument.
  static AccessDistribution zipf(std::uint64_t items, double exponent);

  std::uint64_t items() const { return items_; }
  ItemNumber item_at(std::uint64_t rank) const {
    return order_.empty() ? static_cast<ItemNumber>(rank) : order_[rank];
  }
  double share_at(std::uint64_t rank) const;   // of all accesses
  double cdf(std::uint64_t hottest) const;     // share of so many of the hottest items; exactly 1 for all
  std::uint64_t reaching(double share) const;  // least number of hottest items with at least that cdf
  // The item that a uniformly random number stands for.
  ItemNumber draw(std::uint64_t random) const;

 private:
  AccessDistribution() = default;
  double weight(double rank_from_1) const;
  double weights(std::uint64_t hottest) const;  // their sum
  std::uint64_t guess(double share) const;      // about what `reaching` says, for generated ones

  std::uint64_t items_ = 0;
  std::vector<ItemNumber> order_;    // by rank; empty: generated
  std::vector<std::uint64_t> sums_;  // counts of the hottest 1, 2, …
  double exponent_ = 0, total_ = 1;  // generated
  std::vector<double> first_sums_;   // of the hottest ranks, term by term; the rest is integrated
};

}  // namespace troupe::placement
