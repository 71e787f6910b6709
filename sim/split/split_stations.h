#pragma once
// The two stations of a node in a pool-split experiment, each with one queue in virtual time: the host
// link, which copies missing rows to the device, and the device, which computes. A request's copy cannot
// overlap its own computation (HLEM §II-C, §IV-B), but that of the request before it.
#include <algorithm>

namespace troupe::sim {

struct StationTimes {
  double copy_us = 0, compute_us = 0;
  double sum_us() const { return copy_us + compute_us; }
  double longest_us() const { return std::max(copy_us, compute_us); }
};

class Stations {
 public:
  // Serves a request that arrives at `at_us`, not before the one before it; returns when it is done.
  double serve(double at_us, const StationTimes& times) {
    copied_us_ = std::max(copied_us_, at_us) + times.copy_us;
    return computed_us_ = std::max(computed_us_, copied_us_) + times.compute_us;
  }
  // Returns for each station the time until it is free.
  StationTimes waits(double at_us) const {
    return {std::max(0.0, copied_us_ - at_us), std::max(0.0, computed_us_ - at_us)};
  }
  double idle_link_us(double at_us) const { return std::max(0.0, at_us - copied_us_); }

 private:
  double copied_us_ = 0, computed_us_ = 0;  // when the stations will be free
};

}  // namespace troupe::sim
