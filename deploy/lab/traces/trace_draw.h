#pragma once
// What trace makers draw: who comes back and when, how many looks it takes until a user takes something, and
// candidates. All from seeds; the standard library's distributions may differ between machines.
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "runtime/actor/core.h"
#include "sim/base/sim_random.h"

namespace troupe::deploy {

inline constexpr double history_events_max = 10'000;  // of a drawn user

// Log-normal: `median` times exp(sigma × a standard normal).
double draw_log_normal(SimRandom& random, double median, double sigma);
// From 1 on with this mean (>= 1).
std::uint32_t draw_geometric(SimRandom& random, double mean);

// How users come back: after this share of visits, after a log-normal gap.
struct ReturnRule {
  double share = 0, median_s = 60, sigma = 1;
};

// Who has left and will be back. A visit that is due takes the place of the next new visit.
class Returns {
 public:
  Returns(ReturnRule rule, std::uint64_t seed) : rule_(rule), random_(seed, 0x2e7) {}

  void leave(std::uint32_t user, Instant now, double longer = 1);  // the gap is so many times as long
  std::optional<std::uint32_t> due(Instant now);                   // whoever is due for the longest time

 private:
  struct Back {
    Instant at;
    std::uint32_t user = 0;
    bool operator>(const Back& other) const { return at != other.at ? at > other.at : user > other.user; }
  };
  ReturnRule rule_;
  SimRandom random_;
  std::priority_queue<Back, std::vector<Back>, std::greater<>> away_;
};

// Draws numbers below weights.size() in proportion to their weights.
class Weighted {
 public:
  explicit Weighted(const std::vector<double>& weights);
  std::uint32_t draw(SimRandom& random) const;

 private:
  std::vector<double> sums_;
};

// Draws sets of different items.
class CandidateDraw {
 public:
  explicit CandidateDraw(std::uint32_t items) : taken_(items) {}

  void begin();  // a set
  void exclude(std::uint32_t item) { taken_[item] = round_; }
  // `count` items that are not excluded, or all of them if there are fewer: `truth` if there is one, at a
  // random place, the others by `draw_item`.
  const std::vector<std::uint32_t>& draw(SimRandom& random, std::size_t count,
                                         std::optional<std::uint32_t> truth,
                                         const std::function<std::uint32_t()>& draw_item);

 private:
  bool take(std::uint32_t item);

  std::vector<std::uint32_t> taken_;  // the round in which an item was last taken or excluded
  std::uint32_t round_ = 0;
  std::vector<std::uint32_t> chosen_;
};

}  // namespace troupe::deploy
