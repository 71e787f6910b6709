#pragma once
// Calibration: from passes that were timed, the numbers of a device that nobody publishes: efficiency,
// launch overhead, half saturation. Passes of models with different layers and widths tell launches from
// missing saturation; those of one model alone barely do, which costs nothing for that model.
#include <span>

#include "placement/cost/cost_model.h"

namespace troupe::placement {

struct TimedPass {
  ModelShape shape;
  Pass counts;
  double us = 0;  // measured
};

// Bandwidth is fitted where none is published that would do: a CPU's caches hold a part of the weights.
enum class Bandwidth : std::uint8_t { published, fitted };

// `start` with the numbers that make predictions agree best: least squares of the relative error, with errors
// beyond 2 % counted by their size only, so that a few disturbed passes do not carry the fit. For a given
// half saturation (and bandwidth) a pass is linear in the launch overhead and in 1 / efficiency, which are
// solved for exactly; the others are searched on a grid that is refined, and of equally good half saturations
// the least is taken. Throws std::invalid_argument for fewer than 3 passes, or one without new tokens or a
// time.
DeviceProfile fit_device(const DeviceProfile& start, std::span<const TimedPass> passes,
                         Bandwidth bandwidth = Bandwidth::published);

struct FitErrors {
  double median = 0, max = 0;  // of |predicted - measured| / measured
};
FitErrors errors_of(const DeviceProfile& device, std::span<const TimedPass> passes);  // of at least one pass

}  // namespace troupe::placement
