// Draws the requests of pool-split experiments: visits of hot users, single requests of others, and
// the embedding rows that they read.
#include "sim/split/split_workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"

namespace troupe::sim {
namespace {

constexpr double whole = 4294967296.0;  // 2^32
double unit(std::uint64_t number) { return static_cast<double>(number >> 11) * 0x1p-53; }

}  // namespace

Weights::Weights(const std::vector<double>& weights) : other_(weights.size()), limit_(weights.size()) {
  const double scale =
      static_cast<double>(weights.size()) / std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> left(weights.size());
  std::vector<std::uint32_t> small, large;
  for (std::uint32_t i = 0; i < weights.size(); ++i) {
    left[i] = weights[i] * scale;
    (left[i] < 1 ? small : large).push_back(i);
    other_[i] = i;
    limit_[i] = 0xffffffff;
  }
  while (!small.empty() && !large.empty()) {
    const std::uint32_t less = small.back(), more = large.back();
    small.pop_back();
    limit_[less] = static_cast<std::uint32_t>(std::min(left[less] * whole, whole - 1));
    other_[less] = more;
    left[more] -= 1 - left[less];
    if (left[more] < 1) {
      large.pop_back();
      small.push_back(more);
    }
  }
}

Weights Weights::zipf(std::uint32_t count, double skew) {
  std::vector<double> weights(count);
  for (std::uint32_t i = 0; i < count; ++i) weights[i] = std::pow(i + 1.0, -skew);
  return Weights(weights);
}

std::uint32_t Weights::draw(std::uint64_t number) const {
  const auto at = static_cast<std::uint32_t>(((number >> 32) * limit_.size()) >> 32);
  return static_cast<std::uint32_t>(number) <= limit_[at] ? at : other_[at];
}

SplitWorkload::SplitWorkload(const SplitWorkloadOptions& options)
    : options_(options), random_(options.seed, 1), touched_(), taste_(options.user_shards) {
  const SplitWorkloadOptions& o = options_;
  hot_count_ = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(o.users * o.hot_users));
  TROUPE_CHECK(o.users > hot_count_ && o.shards > 0 && o.rows >= o.shards,
               "the workload needs users that are not hot, shards, and at least one row per shard");
  rows_per_shard_ = o.rows / o.shards;
  hot_ = Weights::zipf(hot_count_, o.user_skew);
  others_ = Weights::zipf(o.users - hot_count_, o.user_skew);
  row_ = Weights::zipf(rows_per_shard_, o.row_skew);
  shard_ = Weights::zipf(o.user_shards, 0.5);
  plan_windows();
  const double under_way = windows_[0].visits * o.visit_requests * o.return_s;
  for (double n = 0; n < under_way; ++n)
    returns_.push({unit(random_.next()) * gap_us(), hot_.draw(random_.next())});
}

void SplitWorkload::plan_windows() {
  const SplitWorkloadOptions& o = options_;
  RandomStream random(o.schedule, 2);
  windows_.resize(o.windows);
  std::uint32_t left = 0;  // remaining windows of the current burst
  for (std::uint32_t w = 0; w < o.windows; ++w) {
    Window& window = windows_[w];
    const double through = o.windows > 1 ? static_cast<double>(w) / (o.windows - 1) : 0;
    window.share = o.hot_share;
    if (o.regime == Regime::trend)
      window.share += (std::max(o.trend_to, o.hot_share) - o.hot_share) * through;
    window.others = o.per_second * (1 - window.share);
    window.visits = o.per_second * window.share / o.visit_requests;
    if (o.regime != Regime::burst) continue;
    if (left == 0 && unit(random.next()) < 1 / o.burst_every) {
      left = 3 + static_cast<std::uint32_t>(random.below(3));
      window.burst_us = left * o.window_s * 1e6;
      // Rate of all requests in the burst.
      const double rate = window.others / (1 - std::max(o.burst_to, o.hot_share));
      window.burst_users = (rate - o.per_second) * o.return_s * std::exp(o.return_sigma * o.return_sigma / 2);
    }
    if (left == 0) continue;
    --left;
    window.share = std::max(o.burst_to, o.hot_share);
  }
}

double SplitWorkload::after(double at_us, double per_second) {
  return at_us - std::log(1 - unit(random_.next())) * 1e6 / per_second;
}

double SplitWorkload::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - unit(random_.next())));
  return radius * std::cos(6.283185307179586 * unit(random_.next()));
}

double SplitWorkload::gap_us() {
  return options_.return_s * 1e6 * std::exp(options_.return_sigma * normal());
}

void SplitWorkload::ask_hot(const Return& next) {
  ask(next.at_us, next.user, true);
  const double again = next.at_us + gap_us();
  if (next.until_us > 0 ? again < next.until_us : unit(random_.next()) * options_.visit_requests >= 1)
    returns_.push({again, next.user, next.until_us});
}

// Users of a burst start at once and send requests until it ends.
void SplitWorkload::start_burst(double begin_us) {
  const Window& window = windows_[window_];
  for (double n = 0; n < window.burst_users; ++n)
    returns_.push(
        {begin_us + unit(random_.next()) * gap_us(), hot_.draw(random_.next()), begin_us + window.burst_us});
}

std::span<const SplitRequest> SplitWorkload::next_window() {
  TROUPE_CHECK(window_ < options_.windows, "there must be another window");
  const double begin = window_ * options_.window_s * 1e6, end = begin + options_.window_s * 1e6;
  const Window& window = windows_[window_];
  requests_.clear();
  for (double at = after(begin, window.others); at < end; at = after(at, window.others))
    ask(at, hot_count_ + others_.draw(random_.next()), false);
  for (double at = after(begin, window.visits); at < end; at = after(at, window.visits))
    returns_.push({at, hot_.draw(random_.next())});
  start_burst(begin);
  while (!returns_.empty() && returns_.top().at_us < end) {
    const Return next = returns_.top();
    returns_.pop();
    ask_hot(next);
  }
  std::ranges::sort(requests_, {}, &SplitRequest::at_us);
  ++window_;
  return requests_;
}

std::uint32_t SplitWorkload::length_of(std::uint32_t user) const {
  const std::uint64_t number = spread(options_.seed * 0x9e3779b9 + user);
  return options_.length_min +
         static_cast<std::uint32_t>(number % (options_.length_max - options_.length_min + 1));
}

std::span<const std::uint32_t> SplitWorkload::shards_of(std::uint32_t user) {
  const std::uint64_t taste = spread(user * 2 + 1) % options_.tastes;
  for (std::uint32_t i = 0; i < taste_.size(); ++i)
    taste_[i] =
        static_cast<std::uint32_t>(spread((options_.seed << 32) ^ (taste << 8) ^ i) % options_.shards);
  return taste_;
}

std::span<const std::uint32_t> SplitWorkload::rows_of(std::uint32_t user, std::uint32_t length) {
  shards_of(user);
  const auto count = static_cast<std::uint32_t>(std::max(1.0, std::round(length * options_.rows_per_event)));
  touched_.resize(count);
  std::uint64_t state = spread((options_.seed << 32) ^ user);
  for (std::uint32_t& row : touched_) {
    state = spread(state);
    const bool taste = unit(state) < options_.shard_share;
    const std::uint64_t second = spread(state ^ 0x5bd1e995);
    const std::uint32_t shard =
        taste ? taste_[shard_.draw(second)] : static_cast<std::uint32_t>(second % options_.shards);
    row = shard * rows_per_shard_ + row_.draw(spread(second));
  }
  return touched_;
}

}  // namespace troupe::sim
