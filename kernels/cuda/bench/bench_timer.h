#pragma once
// Device time of prepared work: events around each run, the caches emptied before it, the median of some
// rounds after a warm-up. And the ceilings, measured the same way.
#include <cstddef>

#include "kernels/cuda/bench/bench_work.h"
#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda {

struct Timing {
  double median = 0, fastest = 0, slowest = 0;  // seconds
};
Timing timing_of(std::vector<double> seconds);

// What the machine gives to whoever asks for one thing only.
struct MeasuredCeilings {
  Ceilings device;                    // a large copy, bytes read plus bytes written; a large bf16 product
  double to_device = 0, to_host = 0;  // bytes per second of page-locked memory
  double smallest_launch = 0;         // seconds that events show around a kernel that does nearly nothing
};

class Timer {
 public:
  Timer(unsigned rounds, const DeviceProperties& device);

  Timing time(const PreparedWork& work);
  // `share` of the sizes that fill a GPU: 1, or next to nothing where only the code is tried.
  MeasuredCeilings ceilings(double share, Chance& chance);

 private:
  const unsigned rounds_;
  const DeviceMemory flushed_;
  Stream stream_;
};

}  // namespace troupe::kernels::cuda
