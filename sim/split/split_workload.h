#pragma once
// Workload of the pool-split experiments (HLEM §V-A). Hot users come in visits of several requests some
// seconds apart; other users send single requests. The share of the hot users' requests is constant
// (steady), rises (trend), or jumps for some windows in which they come in addition to the others'
// unchanged requests (burst). Histories have 5,000 to 15,000 events and touch embedding rows by Zipf's law
// in the shards of their user's taste. A row here stands for many (split_times.h), since a sample of a
// cache's keys behaves like the cache. The same seed gives the same requests.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <string_view>
#include <vector>

#include "sim/base/random.h"

namespace troupe::sim {

enum class Regime : std::uint8_t { steady, trend, burst };
inline constexpr std::string_view regime_names[] = {"steady", "trend", "burst"};

struct SplitWorkloadOptions {
  Regime regime = Regime::steady;
  std::uint32_t users = 10'000;
  double hot_users = 0.05, hot_share = 0.24;  // share of the users, and of the requests that they make
  double user_skew = 0.6;                     // Zipf exponent, among the hot and among the other users
  // per visit: mean requests; median gap in seconds
  double visit_requests = 6, return_s = 6, return_sigma = 0.5;
  double trend_to = 0.5, burst_to = 0.5;  // hot share at the end of a trend, and in a burst
  double burst_every = 15;                // mean number of windows between bursts
  std::uint32_t length_min = 5'000, length_max = 15'000;
  // Scaled-down rows: their number, and how many of them an event touches.
  std::uint32_t rows = 4'000'000;
  double rows_per_event = 0.0134, row_skew = 0.9;
  std::uint32_t shards = 1'024, user_shards = 20, tastes = 64;
  double shard_share = 0.95;  // share of a user's rows in the shards of their taste
  double per_second = 60;
  std::uint32_t windows = 60;
  double window_s = 5;
  std::uint64_t seed = 1;      // of the requests
  std::uint64_t schedule = 1;  // of the bursts; the same for all nodes
};

struct SplitRequest {
  double at_us = 0;
  std::uint32_t user = 0;
  bool hot = false;
  std::uint32_t length = 0;  // events in the user's history
};

// Draws indices by weight in constant time (Walker's alias method).
class Weights {
 public:
  Weights() = default;
  explicit Weights(const std::vector<double>& weights);
  static Weights zipf(std::uint32_t count, double skew);
  std::uint32_t draw(std::uint64_t number) const;  // `number` must be uniform over 64 bits

 private:
  std::vector<std::uint32_t> other_;
  std::vector<std::uint32_t> limit_;
};

class SplitWorkload {
 public:
  explicit SplitWorkload(const SplitWorkloadOptions& options);

  // Returns the requests of the next window, ordered by time.
  std::span<const SplitRequest> next_window();
  double hot_share() const { return windows_[window_ - 1].share; }  // intended hot share of that window
  // Returns the rows that a user's history touches; valid until the next call.
  std::span<const std::uint32_t> rows_of(std::uint32_t user, std::uint32_t length);
  std::span<const std::uint32_t> shards_of(std::uint32_t user);  // of the user's taste, the most used first
  std::uint32_t shard_of(std::uint32_t row) const { return row / rows_per_shard_; }
  std::uint32_t rows_per_shard() const { return rows_per_shard_; }
  std::uint32_t length_of(std::uint32_t user) const;
  const SplitWorkloadOptions& options() const { return options_; }

 private:
  struct Return {
    double at_us = 0;
    std::uint32_t user = 0;
    double until_us = 0;  // end of the burst in which the user sends requests
    bool operator>(const Return& other) const {
      return at_us > other.at_us || (at_us == other.at_us && user > other.user);
    }
  };
  void plan_windows();
  void ask(double at_us, std::uint32_t user, bool hot) {
    requests_.push_back({at_us, user, hot, length_of(user)});
  }
  void ask_hot(const Return& next);
  void start_burst(double begin_us);
  double gap_us();
  double after(double at_us, double per_second);
  double normal();

  SplitWorkloadOptions options_;
  RandomStream random_;
  std::uint32_t hot_count_, rows_per_shard_;
  Weights hot_, others_, row_, shard_;
  struct Window {
    // Hot share; requests of the other users and started visits, per second.
    double share = 0, others = 0, visits = 0;
    double burst_us = 0, burst_users = 0;  // of a burst that begins here: its duration and additional users
  };
  std::vector<Window> windows_;
  std::uint32_t window_ = 0;
  std::vector<SplitRequest> requests_;
  std::priority_queue<Return, std::vector<Return>, std::greater<>> returns_;
  std::vector<std::uint32_t> touched_, taste_;
};

}  // namespace troupe::sim
