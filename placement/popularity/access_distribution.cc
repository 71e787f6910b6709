// Distribution of accesses over the items of a catalog, hottest first: counted from requests, or
// generated from a Zipf exponent. HRCS decides by it how many items are replicated.
#include "placement/popularity/access_distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace troupe::placement {

namespace {

constexpr std::uint64_t items_max = std::numeric_limits<ItemNumber>::max();
constexpr std::uint64_t accesses_max = std::uint64_t{1} << 63;
constexpr std::uint64_t exact_ranks = 4'096;

void check_items(std::uint64_t items) {
  if (items == 0 || items > items_max)
    throw std::invalid_argument("access distribution: items is " + std::to_string(items) + "; expected 1.." +
                                std::to_string(items_max));
}

std::invalid_argument too_many_accesses() {
  return std::invalid_argument("access distribution: more than 2^63 accesses; expected fewer");
}

std::invalid_argument no_accesses() {
  return std::invalid_argument("access distribution: all counts are 0; expected some accesses");
}

double power_integral(double from, double to, double exponent) {
  if (std::abs(exponent - 1) < 1e-9) return std::log(to / from);
  return (std::pow(to, 1 - exponent) - std::pow(from, 1 - exponent)) / (1 - exponent);
}

}  // namespace

AccessDistribution AccessDistribution::from_counts(std::span<const std::uint64_t> counts) {
  check_items(counts.size());
  AccessDistribution all;
  all.items_ = counts.size();
  all.order_.resize(counts.size());
  std::iota(all.order_.begin(), all.order_.end(), ItemNumber{0});
  std::stable_sort(all.order_.begin(), all.order_.end(),
                   [&](ItemNumber a, ItemNumber b) { return counts[a] > counts[b]; });
  all.sums_.reserve(counts.size());
  std::uint64_t sum = 0;
  for (const ItemNumber item : all.order_) {
    if (counts[item] > accesses_max - sum) throw too_many_accesses();
    all.sums_.push_back(sum += counts[item]);
  }
  if (sum == 0) throw no_accesses();
  return all;
}

AccessDistribution AccessDistribution::from_classes(std::span<const AccessClass> classes) {
  AccessDistribution all;
  ClassEnd end;
  for (const AccessClass& next : classes) {
    if (!all.classes_.empty() && next.accesses >= end.each)
      throw std::invalid_argument("access distribution: a class of " + std::to_string(next.accesses) +
                                  " accesses follows one of " + std::to_string(end.each) +
                                  "; expected ever fewer accesses");
    if (next.items > items_max - end.items) check_items(items_max + 1);
    if (next.items > 0 && next.accesses > accesses_max / next.items) throw too_many_accesses();
    if (next.accesses * next.items > accesses_max - end.accesses) throw too_many_accesses();
    end = {end.items + next.items, end.accesses + next.accesses * next.items, next.accesses};
    if (next.items > 0) all.classes_.push_back(end);
  }
  check_items(end.items);
  if (end.accesses == 0) throw no_accesses();
  all.items_ = end.items;
  return all;
}

const AccessDistribution::ClassEnd& AccessDistribution::class_of(std::uint64_t rank) const {
  return *std::ranges::upper_bound(classes_, rank, {}, &ClassEnd::items);
}

AccessDistribution AccessDistribution::zipf(std::uint64_t items, double exponent) {
  check_items(items);
  if (!(exponent >= 0 && exponent <= 10))
    throw std::invalid_argument("access distribution: the Zipf exponent is " + std::to_string(exponent) +
                                "; expected 0..10");
  AccessDistribution all;
  all.items_ = items;
  all.exponent_ = exponent;
  double sum = 0;
  for (std::uint64_t rank = 1; rank <= std::min(items, exact_ranks); ++rank)
    all.first_sums_.push_back(sum += all.weight(static_cast<double>(rank)));
  all.total_ = all.weights(items);
  return all;
}

double AccessDistribution::weight(double rank_from_1) const { return std::pow(rank_from_1, -exponent_); }

// Sums the ranks beyond the exact ones by the Euler-Maclaurin formula: the integral, half of both
// ends, and the first derivative's term. The terms left out are below 1e-12 of the sum.
double AccessDistribution::weights(std::uint64_t hottest) const {
  if (hottest == 0) return 0;
  if (hottest <= first_sums_.size()) return first_sums_[hottest - 1];
  const auto from = static_cast<double>(first_sums_.size()), to = static_cast<double>(hottest);
  const double ends = (weight(to) - weight(from)) / 2;
  const double slopes = exponent_ / 12 * (weight(from) / from - weight(to) / to);
  return first_sums_.back() + power_integral(from, to, exponent_) + ends + slopes;
}

double AccessDistribution::share_at(std::uint64_t rank) const {
  if (is_generated()) return weight(static_cast<double>(rank) + 1) / total_;
  if (!classes_.empty())
    return static_cast<double>(class_of(rank).each) / static_cast<double>(classes_.back().accesses);
  const std::uint64_t before = rank == 0 ? 0 : sums_[rank - 1];
  return static_cast<double>(sums_[rank] - before) / static_cast<double>(sums_.back());
}

double AccessDistribution::cdf(std::uint64_t hottest) const {
  if (hottest >= items_) return 1;
  if (hottest == 0) return 0;
  if (is_generated()) return weights(hottest) / total_;
  if (!classes_.empty()) {
    const ClassEnd& end = class_of(hottest);
    const std::uint64_t sum = end.accesses - (end.items - hottest) * end.each;
    return static_cast<double>(sum) / static_cast<double>(classes_.back().accesses);
  }
  return static_cast<double>(sums_[hottest - 1]) / static_cast<double>(sums_.back());
}

// Inverts the integral, without its small terms.
std::uint64_t AccessDistribution::guess(double share) const {
  const double above = share * total_ - first_sums_.back(), power = 1 - exponent_;
  if (above <= 0) return first_sums_.size();
  const auto from = static_cast<double>(first_sums_.size());
  const double rank = std::abs(power) < 1e-9
                          ? from * std::exp(above)
                          : std::pow(std::max(0.0, std::pow(from, power) + power * above), 1 / power);
  return rank < static_cast<double>(items_) ? static_cast<std::uint64_t>(rank) : items_;
}

std::uint64_t AccessDistribution::reaching(double share) const {
  std::uint64_t low = 0, high = items_;  // invariant: cdf(high) reaches `share`, or no cdf does
  if (is_generated()) {
    constexpr std::uint64_t around = 4;
    const std::uint64_t middle = guess(share);
    if (middle + around < high && cdf(middle + around) >= share) high = middle + around;
    if (middle > first_sums_.size() + around && cdf(middle - around) < share) low = middle - around;
  }
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (cdf(middle) >= share) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

ItemNumber AccessDistribution::draw(std::uint64_t random) const {
  const double at = (static_cast<double>(random >> 11) + 0.5) * 0x1p-53;
  return item_at(std::max<std::uint64_t>(reaching(at), 1) - 1);
}

}  // namespace troupe::placement
