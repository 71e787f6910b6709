#pragma once
// `troupe-lab bench calibrate`: measures the cost model's numbers for this machine. Times the engine over a
// grid of new and reused tokens, fits the device's unpublished numbers to two thirds of the passes, and
// checks the prediction on the others. These include a ranking request, whose candidates do not see
// each other.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/executor/executor.h"
#include "placement/cost/cost_fit.h"

namespace troupe::deploy {

// One forward pass of `segments` segments with `tokens` new tokens each. A segment sees `reused` cached
// tokens and no other segment, and is read at its last token.
struct CalibrationPass {
  std::uint32_t segments = 1, tokens = 0, reused = 0;
  bool held_out = false;  // not used by the fit
};
// Returns the passes that fit into a model's `positions_max` positions.
std::vector<CalibrationPass> calibration_passes(std::uint32_t positions_max);
placement::Pass work_of(const CalibrationPass& pass);
kernels::Plan plan_of(const CalibrationPass& pass, std::uint32_t vocabulary);

// Returns a profile of `cores` cores of this machine at their peak. Multiply-add rates of float32, bf16 and
// int8 are sampled (that of bf16 is float32's where the CPU only stores bf16) and the memory size is read;
// everything else is the default of a CPU. Throws std::runtime_error where multiply-adds cannot be sampled.
placement::DeviceProfile measure_machine(std::uint32_t cores);

struct CalibrationSetup {
  std::uint32_t cores = 1, rounds = 3;
};

// A model of any family whose passes are timed. `name` appears in reports and errors.
struct CalibrationModel {
  std::string name;
  kernels::PlanLimits limits;
  placement::ModelShape shape;
  std::function<std::unique_ptr<kernels::Executor>()> load;
};

struct CalibrationRow {
  CalibrationPass pass;
  placement::TimedPass timed;  // minimum over the rounds, without the time that other processes took
  double mean_us = 0;          // mean over the rounds, with the time that other processes took
  double predicted_us = 0;
};
struct Calibration {
  placement::DeviceProfile device;
  std::vector<CalibrationRow> rows;
  placement::FitErrors fitted, held_out;
};

// Throws std::invalid_argument if a model has too few positions. `progress` receives the finished share in
// percent.
Calibration calibrate(const std::vector<CalibrationModel>& models, const CalibrationSetup& setup,
                      const std::function<void(std::uint64_t)>& progress);

}  // namespace troupe::deploy
