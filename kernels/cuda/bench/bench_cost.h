#pragma once
// Computes lower bounds of times: operations over the rate of the unit that does them, or bytes
// over the memory bandwidth, whichever takes longer. The benchmark divides by ceilings that it
// measures in the same run, the table of expectations by those of data sheets.
#include <functional>
#include <span>
#include <string_view>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda {

enum class CostKind { memory, product, attention };

struct Ceilings {
  double bytes_per_second = 0, flops_per_second = 0;
};
struct DataSheet {
  std::string_view device;
  Ceilings peaks;  // memory bandwidth; dense bf16 rate
  double cycles_per_second = 0;
  DeviceProperties properties;
};
std::span<const DataSheet> data_sheets();

// The cost of one step. `bytes`: each input read once, each output written once. `flops`:
// operations of the matrix units.
struct Cost {
  CostKind kind = CostKind::memory;
  double bytes = 0, flops = 0;
  // For attention: seconds that its plan predicts, including launches (attend_cost.h).
  std::function<double(const DataSheet&)> predicted;
};

double total_bytes(std::span<const Cost> steps);
double total_flops(std::span<const Cost> steps);
// Returns the lower bound for steps that run one after another.
double floor_seconds(std::span<const Cost> steps, const Ceilings& ceilings);

// Assumptions about a device: the share of its peaks that each kind of work reaches, and the cost
// of a launch. Attention takes what its plan predicts. A measurement that differs from the
// expectation needs an explanation.
struct Assumptions {
  double memory_share = 0.85, product_share = 0.70;
  double launch_seconds = 2e-6;  // from the end of one kernel to the work of the next
};
// `launches`: excluding those of attention.
double expected_seconds(std::span<const Cost> steps, unsigned launches, const DataSheet& sheet,
                        const Assumptions& assumptions);

}  // namespace troupe::kernels::cuda
