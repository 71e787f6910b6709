#pragma once
// Random draws of trace makers: returning users, the number of views until a user takes an item, and
// candidates. Everything derives from seeds. The standard library's distributions are not used, because they
// may differ between machines.
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "runtime/actor/core.h"
#include "sim/base/random_stream.h"

namespace troupe::deploy {

inline constexpr double history_events_max = 10'000;  // longest history of a drawn user

// Draws from a log-normal distribution: `median` times exp(sigma × a standard normal).
double draw_log_normal(RandomStream& random, double median, double sigma);
// Draws from a geometric distribution that starts at 1 and has this mean (>= 1).
std::uint32_t draw_geometric(RandomStream& random, double mean);

// Return behaviour of users: after `share` of the visits they return, after a log-normal gap.
struct ReturnRule {
  double share = 0, median_s = 60, sigma = 1;
};

// Users who have left and will return. A due return replaces the next new visit.
class ReturnQueue {
 public:
  ReturnQueue(ReturnRule rule, std::uint64_t seed) : rule_(rule), random_(seed, 0x2e7) {}

  void leave(std::uint32_t user, Instant now, double longer = 1);  // `longer` multiplies the gap
  std::optional<std::uint32_t> due(Instant now);                   // removes the user who is due longest

 private:
  struct ReturnVisit {
    Instant at;
    std::uint32_t user = 0;
    bool operator>(const ReturnVisit& other) const {
      return at != other.at ? at > other.at : user > other.user;
    }
  };
  ReturnRule rule_;
  RandomStream random_;
  std::priority_queue<ReturnVisit, std::vector<ReturnVisit>, std::greater<>> away_;
};

// Draws numbers below weights.size() in proportion to their weights.
class WeightedDraw {
 public:
  explicit WeightedDraw(const std::vector<double>& weights);
  std::uint32_t draw(RandomStream& random) const;

 private:
  std::vector<double> sums_;
};

// Draws sets of distinct items.
class CandidateDraw {
 public:
  explicit CandidateDraw(std::uint32_t items) : taken_(items) {}

  void begin();  // begins a new set
  void exclude(std::uint32_t item) { taken_[item] = round_; }
  // Returns `count` items that are not excluded, or all of them if there are fewer. `truth`, if given, is at
  // a random position; the others are drawn by `draw_item`.
  const std::vector<std::uint32_t>& draw(RandomStream& random, std::size_t count,
                                         std::optional<std::uint32_t> truth,
                                         const std::function<std::uint32_t()>& draw_item);

 private:
  bool take(std::uint32_t item);

  std::vector<std::uint32_t> taken_;  // the round in which an item was last taken or excluded
  std::uint32_t round_ = 0;
  std::vector<std::uint32_t> chosen_;
};

}  // namespace troupe::deploy
