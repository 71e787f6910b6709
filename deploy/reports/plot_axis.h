#pragma once
// Axes that people can read: ends and ticks at 1, 2 or 5 times a power of ten, labels that tell neighbours
// apart. Any finite extent gives an axis, also a single value, none at all, or one near the end of double.
#include <limits>
#include <string>
#include <vector>

namespace troupe::deploy {

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool empty() const { return low > high; }
  void add(double value);  // values beyond ±axis_max count as that
};

constexpr double axis_max = 1e300;

struct Axis {
  double low = 0, high = 1;  // low < high; both above 0 if log
  bool log = false;
  std::vector<double> ticks;
  std::vector<std::string> labels;  // one per tick
  std::vector<double> minor_ticks;  // without labels; logarithmic axes only

  double place(double value) const;  // 0 at low, 1 at high
};

Axis tight_axis(Extent extent, int steps_max);    // ends where the data end
Axis rounded_axis(Extent extent, int steps_max);  // ends on ticks; begins at zero unless that wastes the room
Axis log_axis(Extent extent, int steps_max);      // of values above 0; ends on ticks

// The smallest of 1, 2, 5 times a power of ten that covers `span` in at most `steps_max` steps.
double nice_step(double span, int steps_max);

}  // namespace troupe::deploy
