#pragma once
// Fits, on this machine, the size from which splitting a region of work between cores pays (xGR §5.2;
// team.h). Regions of attention on keys of several lengths are timed alone and with helpers, and a cost model
// is fitted to the times.
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::kernels {

// Times of one region of work, in seconds.
struct SplitPoint {
  double operations = 0, alone = 0, split = 0;
};

// Alone, a region takes `begin` plus operations / rate. Split, it also takes `meet` to wake up and join the
// workers, and the operations run faster by their number.
struct SplitFit {
  double rate = 0;   // operations a second of one core
  double begin = 0;  // seconds before they run, either way
  double meet = 0;   // seconds that splitting costs
  double share = 0;  // share of a core that each further worker adds
  double least = 0;  // operations of the smallest region that was measured; smaller ones are not split

  double alone(double operations) const { return begin + operations / rate; }
  double split(double operations, std::uint32_t workers) const {
    return begin + meet + operations / (rate * (1 + share * (workers - 1)));
  }
  // Returns the number of operations from which splitting is faster; infinity if it never is.
  double worth_splitting(std::uint32_t workers) const;
};

// Times regions with attention on so many keys each, with `workers` cores (at least two): the minimum of some
// rounds counts. Returns nothing if that takes longer than `seconds_max`: other programs use the cores.
std::vector<SplitPoint> measure_split(std::uint32_t workers, std::span<const std::uint32_t> keys, int rounds,
                                      double seconds_max);
SplitFit fit_split(std::span<const SplitPoint> points, std::uint32_t workers);

// Returns, for the teams of this process, the operations from which a region is split: measured at the first
// call, in some 20 ms, and within `split_bounds`, so that a disturbed measurement does no harm. On a busy
// machine it is the upper bound.
double fitted_split();
struct SplitBounds {
  double least, most;
};
inline constexpr SplitBounds split_bounds{1e5, 1e7};

}  // namespace troupe::kernels
