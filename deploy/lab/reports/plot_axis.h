#pragma once
// Computes readable axes: ends and ticks at 1, 2 or 5 times a power of ten, and distinct labels.
// Every finite extent gives an axis, including a single value, none, or values near the limits of
// double.
#include <limits>
#include <string>
#include <vector>

namespace troupe::deploy {

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool empty() const { return low > high; }
  void add(double value);  // clamps values to ±axis_max
};

constexpr double axis_max = 1e300;

struct Axis {
  double low = 0, high = 1;  // low < high; both above 0 if log
  bool log = false;
  std::vector<double> ticks;
  std::vector<std::string> labels;  // one per tick
  std::vector<double> minor_ticks;  // without labels; logarithmic axes only

  double place(double value) const;  // position: 0 at low, 1 at high
};

Axis tight_axis(Extent extent, int steps_max);  // ends at the first and last value
// ends on ticks; starts at zero unless that wastes most of the axis
Axis rounded_axis(Extent extent, int steps_max);
Axis log_axis(Extent extent, int steps_max);  // for values above 0; ends on ticks

// Returns the smallest of 1, 2, 5 times a power of ten that covers `span` in at most `steps_max`
// steps.
double nice_step(double span, int steps_max);

}  // namespace troupe::deploy
