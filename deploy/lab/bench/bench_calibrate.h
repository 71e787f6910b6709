#pragma once
// `troupe bench calibrate`: the cost model's numbers for this machine. Times the engine over a grid of new
// and reused tokens, fits the numbers that nobody publishes to two thirds of the passes, and tries the
// prediction on the rest, among them a ranking request, whose candidates do not see each other.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/executor/executor.h"
#include "placement/cost/cost_fit.h"

namespace troupe::deploy {

// A pass: so many segments of so many tokens, each behind `reused` cached ones and blind to its neighbours;
// each is read at its last token.
struct CalibrationPass {
  std::uint32_t segments = 1, tokens = 0, reused = 0;
  bool held_out = false;  // from the fit
};
// Those that fit into the positions of a model.
std::vector<CalibrationPass> calibration_passes(std::uint32_t positions_max);
placement::Pass work_of(const CalibrationPass& pass);
kernels::Plan plan_of(const CalibrationPass& pass, std::uint32_t vocabulary);

// What `cores` of this machine can do at most: multiply-adds are sampled, the rest is the default of a CPU.
// Throws std::runtime_error where multiply-adds cannot be sampled.
placement::DeviceProfile measure_machine(std::uint32_t cores);

struct CalibrationSetup {
  std::uint32_t cores = 1, rounds = 3;
};

// A model whose passes are timed, of any family. `name` is for people.
struct CalibrationModel {
  std::string name;
  kernels::PlanLimits limits;
  placement::ModelShape shape;
  std::function<std::unique_ptr<kernels::Executor>()> load;
};

struct CalibrationRow {
  CalibrationPass pass;
  placement::TimedPass
      timed;           // the least of the rounds: what others take from the machine is not its own time
  double mean_us = 0;  // of the rounds: the machine's pace with what others take from it
  double predicted_us = 0;
};
struct Calibration {
  placement::DeviceProfile device;
  std::vector<CalibrationRow> rows;
  placement::FitErrors fitted, held_out;
};

// Throws std::invalid_argument if a model has too few positions. `progress` hears the share done, in percent.
Calibration calibrate(const std::vector<CalibrationModel>& models, const CalibrationSetup& setup,
                      const std::function<void(std::uint64_t)>& progress);

}  // namespace troupe::deploy
