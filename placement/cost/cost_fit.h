#pragma once
// Calibrates a device from timed passes: fits the numbers that nobody publishes (efficiency, launch
// overhead, half saturation). Passes of models with different layers and widths separate launch
// overhead from missing saturation. Passes of one model hardly separate them, which does not matter
// for predictions about that model.
#include <span>

#include "placement/cost/cost_model.h"

namespace troupe::placement {

struct TimedPass {
  ModelShape shape;
  Pass counts;
  double us = 0;  // measured microseconds
};

// Says whether to fit the bandwidth as well. A CPU needs it: its caches hold a part of the weights,
// so no published bandwidth applies.
enum class Bandwidth : std::uint8_t { published, fitted };

// Returns `start` with the numbers that minimize the squared relative error. An error beyond 2 %
// counts linearly, so that a few disturbed passes do not dominate the fit.
//
// For a given half saturation (and bandwidth) a pass is linear in the launch overhead and in 1 /
// efficiency; these two are solved for exactly. The others are searched on a grid that is refined.
// Among equally good half saturations the least is taken. Throws std::invalid_argument for fewer
// than 3 passes, and for a pass without new tokens or without a time.
DeviceProfile fit_device(const DeviceProfile& start, std::span<const TimedPass> passes,
                         Bandwidth bandwidth = Bandwidth::published);

struct FitErrors {
  double median = 0, max = 0;  // |predicted - measured| / measured
};
// Needs at least one pass.
FitErrors errors_of(const DeviceProfile& device, std::span<const TimedPass> passes);

}  // namespace troupe::placement
