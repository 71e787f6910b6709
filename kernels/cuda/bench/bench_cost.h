#pragma once
// What work costs at least: its operations over the rate of the unit that does them, its bytes over the
// memory's bandwidth, whichever takes longer. The benchmark divides by ceilings that it measures in the same
// run, the table of expectations by those of data sheets.
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
  Ceilings peaks;  // memory; dense bf16
  double cycles_per_second = 0;
  DeviceProperties properties;
};
std::span<const DataSheet> data_sheets();

// One step. Bytes: each input read once, each output written once. Operations of the matrix units.
struct Cost {
  CostKind kind = CostKind::memory;
  double bytes = 0, flops = 0;
  // Of attention: seconds of its plan, with its launches (attend_cost.h).
  std::function<double(const DataSheet&)> predicted;
};

double total_bytes(std::span<const Cost> steps);
double total_flops(std::span<const Cost> steps);
// Of steps that run one after another.
double floor_seconds(std::span<const Cost> steps, const Ceilings& ceilings);

// What to expect of steps on such a device, given what its kind of work is assumed to reach of its peaks and
// what a launch costs; attention is what its plan is predicted to take. For comparison with what is measured:
// where they differ, one of both is to be understood.
struct Assumptions {
  double memory_share = 0.85, product_share = 0.70;
  double launch_seconds = 2e-6;  // from the end of one kernel to the work of the next
};
// `launches`: without those of attention.
double expected_seconds(std::span<const Cost> steps, unsigned launches, const DataSheet& sheet,
                        const Assumptions& assumptions);

}  // namespace troupe::kernels::cuda
