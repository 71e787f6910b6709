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

// NVIDIA A100 40GB and H200 (SXM) data sheets: memory bandwidth, dense bf16.
std::span<const DataSheet> data_sheets() {
  static constexpr DataSheet sheets[] = {{"A100-40G", {1.555e12, 312e12}}, {"H200", {4.8e12, 989e12}}};
  return sheets;
}

double expected_seconds(std::span<const Cost> steps, unsigned launches, const Ceilings& peaks,
                        const Assumptions& assumptions) {
  double sum = launches * assumptions.launch_seconds;
  for (const Cost& step : steps) {
    const double share =
        step.kind == CostKind::attention ? assumptions.attention_share : assumptions.product_share;
    sum += std::max(step.bytes / (peaks.bytes_per_second * assumptions.memory_share),
                    step.flops / (peaks.flops_per_second * share));
  }
  return sum;
}

}  // namespace troupe::kernels::cuda
