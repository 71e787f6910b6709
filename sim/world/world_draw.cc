// Random draws of items and users by popularity.
#include <cmath>
#include <unordered_set>

#include "kernels/base/check.h"
#include "sim/world/world_data.h"

namespace troupe::sim {
namespace {

constexpr std::uint32_t draws_per_candidate = 20;

std::uint32_t draw(RandomStream& random, const Zipf& popularity, const FlashCrowd& flash,
                   std::uint32_t count) {
  if (flash.share > 0 && chance(random, flash.share))
    return static_cast<std::uint32_t>((flash.first + random.below(flash.count)) % count);
  return static_cast<std::uint32_t>(popularity.draw(random));
}

}  // namespace

// W. Hörmann, G. Derflinger: Rejection-inversion to generate variates from monotone discrete distributions
// (1996).
Zipf::Zipf(std::uint64_t n, double exponent) : n_(n), exponent_(exponent) {
  TROUPE_CHECK(n > 0 && exponent >= 0,
               "a Zipf distribution needs at least one rank and a non-negative exponent");
  first_ = integral(1.5) - 1;
  last_ = integral(static_cast<double>(n) + 0.5);
  shortcut_ = 2 - inverse(integral(2.5) - std::pow(2, -exponent));
}

// Integral of x^-exponent, up to a constant.
double Zipf::integral(double x) const {
  const double log_x = std::log(x), power = (1 - exponent_) * log_x;
  return std::abs(power) > 1e-8 ? std::expm1(power) / power * log_x : log_x;
}

double Zipf::inverse(double y) const {
  const double power = std::max(-1.0, y * (1 - exponent_));
  return std::exp(std::abs(power) > 1e-8 ? std::log1p(power) / power * y : y);
}

std::uint64_t Zipf::draw(RandomStream& random) const {
  while (true) {
    const double y = last_ + unit(random) * (first_ - last_);
    const double x = inverse(y);
    const double rank = std::min(std::max(std::floor(x + 0.5), 1.0), static_cast<double>(n_));
    if (rank - x <= shortcut_ || y >= integral(rank + 0.5) - std::pow(rank, -exponent_))
      return static_cast<std::uint64_t>(rank) - 1;
  }
}

std::uint32_t WorldData::draw_item(RandomStream& random) const {
  return draw(random, item_popularity_, item_flash, options_.items);
}

std::uint32_t WorldData::draw_user(RandomStream& random) const {
  return draw(random, user_popularity_, user_flash, options_.users);
}

std::vector<std::string> WorldData::draw_candidates(RandomStream& random, std::size_t count,
                                                    std::string_view catalog) const {
  std::vector<std::string> ids;
  const auto at = find_catalog(catalog);
  if (!at) return ids;
  ids.reserve(count);
  std::unordered_set<std::uint32_t> drawn;
  const auto take = [&](std::uint32_t number) {
    if (!drawn.insert(number).second) return;
    std::string id = item_id(number);
    if (has_item(id, *at)) ids.push_back(std::move(id));
  };
  for (std::size_t tries = count * draws_per_candidate; ids.size() < count && tries > 0; --tries)
    take(draw_item(random));
  // A steep distribution's head is soon exhausted: the remaining ids are taken in order.
  for (std::uint32_t number = 0; ids.size() < count && number < options_.items; ++number) take(number);
  return ids;
}

}  // namespace troupe::sim
