#pragma once
// Describes how the accesses of a catalog spread over its items, hottest first (the access CDF of
// BAT §5.2, step 2). The accesses are counted, or generated from a Zipf exponent s: the item of
// rank r has a share in proportion to (r + 1)^-s, and real catalogs lie near 0.5 to 0.7. A
// generated distribution and one of classes store nothing per item, a counted one 12 bytes.
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::placement {

using ItemNumber = std::uint32_t;  // index of an item in its catalog, from 0

// Items that have the same number of accesses.
struct AccessClass {
  std::uint64_t accesses = 0;  // of each item
  std::uint64_t items = 0;
  bool operator==(const AccessClass&) const = default;
};

class AccessDistribution {
 public:
  // Constructs a distribution from counts[i], the accesses of item i. Equally hot items keep their
  // order. Throws std::invalid_argument if there are no items or more than 2^32 - 1, and if there
  // are no accesses or more than 2^63.
  static AccessDistribution from_counts(std::span<const std::uint64_t> counts);
  // Constructs a distribution in which item i has rank i, from classes with ever fewer accesses. Throws
  // std::invalid_argument if they are in another order, and for the same totals as above.
  static AccessDistribution from_classes(std::span<const AccessClass> classes);
  // Constructs a Zipf distribution in which item i has rank i. Throws std::invalid_argument unless
  // there are 1 to 2^32 - 1 items and the exponent is 0 to 10.
  static AccessDistribution zipf(std::uint64_t items, double exponent);

  std::uint64_t items() const { return items_; }
  ItemNumber item_at(std::uint64_t rank) const {
    return order_.empty() ? static_cast<ItemNumber>(rank) : order_[rank];
  }
  double share_at(std::uint64_t rank) const;  // share of all accesses
  double cdf(std::uint64_t hottest) const;    // access share of that many hottest items; exactly 1 for all
  // Least number of hottest items whose cdf is at least `share`.
  std::uint64_t reaching(double share) const;
  // Draws an item by its access share; `random` must be uniformly distributed.
  ItemNumber draw(std::uint64_t random) const;

 private:
  AccessDistribution() = default;
  bool is_generated() const { return order_.empty() && classes_.empty(); }
  double weight(double rank_from_1) const;
  double weights(std::uint64_t hottest) const;  // sum of the hottest weights
  std::uint64_t guess(double share) const;      // approximates `reaching` for a generated distribution

  std::uint64_t items_ = 0;
  std::vector<ItemNumber> order_;    // items by rank; empty if generated
  std::vector<std::uint64_t> sums_;  // accesses of the hottest 1, 2, … items
  // Totals of a class and all hotter ones; only if constructed from classes.
  struct ClassEnd {
    std::uint64_t items = 0, accesses = 0, each = 0;
  };
  const ClassEnd& class_of(std::uint64_t rank) const;
  std::vector<ClassEnd> classes_;
  double exponent_ = 0, total_ = 1;  // only if generated
  // Sums over the hottest ranks, term by term; further ranks are integrated.
  std::vector<double> first_sums_;
};

}  // namespace troupe::placement
