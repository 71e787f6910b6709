// Computes the least time that work can take on a GPU, from its operations and bytes. Holds the
// data sheets of the GPUs for which expected times are printed.
#include "kernels/cuda/bench/bench_cost.h"

#include <algorithm>

namespace troupe::kernels::cuda {

double total_bytes(std::span<const Cost> steps) {
  double sum = 0;
  for (const Cost& step : steps) sum += step.bytes;
  return sum;
}

double total_flops(std::span<const Cost> steps) {
  double sum = 0;
  for (const Cost& step : steps) sum += step.flops;
  return sum;
}

double floor_seconds(std::span<const Cost> steps, const Ceilings& ceilings) {
  double sum = 0;
  for (const Cost& step : steps)
    sum += std::max(step.bytes / ceilings.bytes_per_second, step.flops / ceilings.flops_per_second);
  return sum;
}

// Data sheets of NVIDIA A100 40GB, H100 and H200 (SXM): memory bandwidth, dense bf16 rate, and the
// clock that this rate implies.
std::span<const DataSheet> data_sheets() {
  static const DataSheet sheets[] = {
      {"A100-40G",
       {1.555e12, 312e12},
       1.41e9,
       {"A100-40G", 80, 108, std::size_t{40} << 30, 40 << 20, 163 * 1024, 164 * 1024}},
      {"H100",
       {3.35e12, 989e12},
       1.83e9,
       {"H100", 90, 132, std::size_t{80} << 30, 50 << 20, 227 * 1024, 228 * 1024}},
      {"H200",
       {4.8e12, 989e12},
       1.83e9,
       {"H200", 90, 132, std::size_t{141} << 30, 50 << 20, 227 * 1024, 228 * 1024}}};
  return sheets;
}

double expected_seconds(std::span<const Cost> steps, unsigned launches, const DataSheet& sheet,
                        const Assumptions& assumptions) {
  double sum = launches * assumptions.launch_seconds;
  for (const Cost& step : steps) {
    const double computing = step.predicted
                                 ? step.predicted(sheet)
                                 : step.flops / (sheet.peaks.flops_per_second * assumptions.product_share);
    sum += std::max(step.bytes / (sheet.peaks.bytes_per_second * assumptions.memory_share), computing);
  }
  return sum;
}

}  // namespace troupe::kernels::cuda
