// Makes the random draws of generated traces from seeds: returning users, views until a user takes
// an item, and candidates. Gives the same draws on every machine.
#include "deploy/lab/traces/trace_draw.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "sim/base/random.h"

namespace troupe::deploy {

namespace {

constexpr std::size_t tries_per_candidate = 20;

}  // namespace

double draw_log_normal(RandomStream& random, double median, double sigma) {
  const double radius = std::sqrt(-2 * std::log(sim::unit(random)));  // Box and Muller
  return median * std::exp(sigma * radius * std::cos(2 * std::numbers::pi * sim::unit(random)));
}

std::uint32_t draw_geometric(RandomStream& random, double mean) {
  if (mean <= 1) return 1;
  const double drawn = std::ceil(std::log(sim::unit(random)) / std::log1p(-1 / mean));
  return static_cast<std::uint32_t>(std::clamp(drawn, 1.0, 1e6));
}

// ---- returns ----

void ReturnQueue::leave(std::uint32_t user, Instant now, double longer) {
  if (!sim::chance(random_, rule_.share)) return;
  const double gap_us = draw_log_normal(random_, rule_.median_s * longer, rule_.sigma) * 1e6;
  away_.push({now + Duration{static_cast<std::int64_t>(std::min(gap_us, 1e15))}, user});
}

std::optional<std::uint32_t> ReturnQueue::due(Instant now) {
  if (away_.empty() || away_.top().at > now) return std::nullopt;
  const std::uint32_t user = away_.top().user;
  away_.pop();
  return user;
}

// ---- items ----

WeightedDraw::WeightedDraw(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) sums_.push_back(sum += weight);
}

std::uint32_t WeightedDraw::draw(RandomStream& random) const {
  const auto at = std::ranges::upper_bound(sums_, sim::unit(random) * sums_.back());
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(static_cast<std::size_t>(at - sums_.begin()), sums_.size() - 1));
}

void CandidateDraw::begin() {
  ++round_;
  chosen_.clear();
}

bool CandidateDraw::take(std::uint32_t item) {
  if (std::exchange(taken_[item], round_) == round_) return false;
  chosen_.push_back(item);
  return true;
}

const std::vector<std::uint32_t>& CandidateDraw::draw(RandomStream& random, std::size_t count,
                                                      std::optional<std::uint32_t> truth,
                                                      const std::function<std::uint32_t()>& draw_item) {
  if (truth) {
    taken_[*truth] = round_ - 1;  // not excluded, even if it is in the history
    take(*truth);
  }
  for (std::size_t tries = count * tries_per_candidate; chosen_.size() < count && tries > 0; --tries)
    take(draw_item());
  // Draws from a steep distribution soon repeat; the set is then filled with any items that are left.
  for (std::uint32_t item = 0; chosen_.size() < count && item < taken_.size(); ++item) take(item);
  if (truth) std::swap(chosen_.front(), chosen_[random.below(chosen_.size())]);
  return chosen_;
}

}  // namespace troupe::deploy
