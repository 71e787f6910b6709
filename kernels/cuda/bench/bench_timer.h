#pragma once
// Measures device time of prepared work: events around each run, caches flushed before it, the
// median of several rounds after a warm-up. Measures the ceilings in the same way.
#include <cstddef>

#include "kernels/cuda/bench/bench_work.h"
#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda {

struct Timing {
  double median = 0, fastest = 0, slowest = 0;  // seconds
};
Timing timing_of(std::vector<double> seconds);

// The machine's ceilings, each measured alone.
struct MeasuredCeilings {
  Ceilings device;                    // a large copy, bytes read plus bytes written; a large bf16 product
  double to_device = 0, to_host = 0;  // bytes per second of page-locked memory
  double smallest_launch = 0;         // seconds that events show around a nearly empty kernel
};

class Timer {
 public:
  Timer(unsigned rounds, const DeviceProperties& device);

  Timing time(const PreparedWork& work);
  // `share`: fraction of the sizes that fill a GPU; 1, or nearly 0 if only the code is tested.
  MeasuredCeilings ceilings(double share, Chance& chance);

 private:
  const unsigned rounds_;
  const DeviceMemory flushed_;
  Stream stream_;
};

}  // namespace troupe::kernels::cuda
