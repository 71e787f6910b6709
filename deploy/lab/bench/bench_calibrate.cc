// Times the engine's passes (runs of the model over a batch) on this machine and fits the cost
// model to two thirds of them. Checks the predicted times on the other passes.
#include "deploy/lab/bench/bench_calibrate.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "deploy/lab/bench/bench_engine.h"
#include "deploy/models/cost_shape.h"
#include "kernels/cpu/products/fma_rate.h"
#include "placement/cost/device_profiles.h"

namespace troupe::deploy {

namespace {

using kernels::SegmentKind;
using kernels::Source;
using placement::ModelShape;
using placement::Precision;
using placement::TimedPass;

constexpr std::uint32_t fresh_tokens[] = {8, 24, 64, 160, 512, 1536};
constexpr std::uint32_t reused_tokens[] = {0, 128, 512, 1536, 3072};
constexpr CalibrationPass ranking{100, 10, 1500, true};
constexpr std::uint32_t positions_least = 512;
constexpr double pass_seconds_least = 0.05;  // short passes are repeated until their sum reaches this

// Returns CPU time if one core is used, which excludes other processes on that core; else wall time.
double seconds_now(std::uint32_t cores) {
  timespec t;
  clock_gettime(cores == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

// An executor and the cached tokens that its passes reuse. A pass that reuses fewer takes the first pages.
class PassTimer {
 public:
  PassTimer(const CalibrationModel& model, const CalibrationSetup& setup, std::uint32_t reused_most)
      : cores_(setup.cores),
        vocabulary_(static_cast<std::uint32_t>(model.limits.vocabulary)),
        executor_(model.load()) {
    if (reused_most > 0) keep_history(reused_most);
  }

  struct Seconds {
    double least = INFINITY, mean = 0;
  };
  Seconds seconds_of(const CalibrationPass& pass, std::uint32_t rounds) {
    const kernels::Plan plan = plan_of(pass, vocabulary_);
    kernels::Request request{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
    if (pass.reused > 0) {
      const auto pages = static_cast<std::ptrdiff_t>(executor_->layout().pages_for(pass.reused));
      request.kv[0] = {Source::cached, {pages_.begin(), pages_.begin() + pages}};
    }
    executor_->run({&request, 1}, replies_);
    Seconds of;
    double all = 0;
    std::uint32_t round = 0;
    for (; round < rounds || all < pass_seconds_least; ++round) {
      const double start = seconds_now(cores_);
      executor_->run({&request, 1}, replies_);
      const double seconds = seconds_now(cores_) - start;
      of.least = std::min(of.least, seconds);
      all += seconds;
    }
    of.mean = all / round;
    return of;
  }

 private:
  void keep_history(std::uint32_t tokens) {
    const kernels::PageLayout& layout = executor_->layout();
    const std::size_t pages = layout.pages_for(tokens);
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(64, pages * layout.page_bytes())));
    if (!bytes_) throw std::bad_alloc();
    for (std::size_t i = 0; i < pages; ++i) pages_.push_back(bytes_.get() + i * layout.page_bytes());
    kernels::Plan plan = plan_of({1, tokens, 0, false}, vocabulary_);
    plan.readouts.clear();
    const kernels::Request keep{&plan, {{Source::compute, pages_}}};
    executor_->run({&keep, 1}, replies_);
  }

  std::uint32_t cores_, vocabulary_;
  std::unique_ptr<kernels::Executor> executor_;
  std::unique_ptr<std::byte, FreeBytes> bytes_;
  std::vector<std::byte*> pages_;
  std::vector<kernels::Reply> replies_;
};

// All passes of all models, not timed yet.
std::vector<std::vector<CalibrationRow>> rows_of(const std::vector<CalibrationModel>& models) {
  std::vector<std::vector<CalibrationRow>> rows;
  for (const CalibrationModel& model : models) {
    const auto positions = static_cast<std::uint32_t>(model.limits.positions_max);
    if (positions < positions_least)
      throw std::invalid_argument(model.name + " has " + std::to_string(positions) +
                                  " positions; expected at least " + std::to_string(positions_least));
    ModelShape shape = model.shape;
    shape.name = model.name;
    shape.rows_read = score_rows;
    rows.emplace_back();
    for (const CalibrationPass& pass : calibration_passes(positions))
      rows.back().push_back({pass, {shape, work_of(pass), 0}, 0});
  }
  return rows;
}

double predicted_sum(const placement::DeviceProfile& device, const std::vector<CalibrationRow>& rows) {
  double us = 0;
  for (const CalibrationRow& row : rows)
    us += placement::CostModel(device, row.timed.shape).prefill_us(row.timed.counts);
  return us;
}

std::vector<TimedPass> timed(const std::vector<CalibrationRow>& rows, bool held_out) {
  std::vector<TimedPass> passes;
  for (const CalibrationRow& row : rows)
    if (row.pass.held_out == held_out) passes.push_back(row.timed);
  return passes;
}

}  // namespace

std::vector<CalibrationPass> calibration_passes(std::uint32_t positions_max) {
  std::vector<CalibrationPass> passes;
  for (std::uint32_t f = 0; f < std::size(fresh_tokens); ++f)
    for (std::uint32_t r = 0; r < std::size(reused_tokens); ++r)
      if (fresh_tokens[f] + reused_tokens[r] <= positions_max)
        passes.push_back({1, fresh_tokens[f], reused_tokens[r], (f + r) % 3 == 1});
  if (ranking.tokens + ranking.reused <= positions_max) passes.push_back(ranking);
  return passes;
}

placement::Pass work_of(const CalibrationPass& pass) {
  placement::Pass work;
  for (std::uint32_t s = 0; s < pass.segments; ++s) work += placement::causal_pass(pass.tokens, pass.reused);
  work.reused_tokens = pass.reused;  // all segments share one history
  return work;
}

kernels::Plan plan_of(const CalibrationPass& pass, std::uint32_t vocabulary) {
  std::uint64_t state = 7;
  const auto draw = [&](std::uint32_t count) {
    std::vector<kernels::Token> tokens(count);
    for (kernels::Token& token : tokens) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
      token = static_cast<kernels::Token>((state >> 33) % vocabulary);
    }
    return tokens;
  };
  kernels::Plan plan;
  if (pass.reused > 0) plan.segments.push_back({SegmentKind::user, draw(pass.reused), 0, {}});
  std::vector<kernels::Token> rows(std::min(score_rows, vocabulary));
  std::iota(rows.begin(), rows.end(), 0);
  for (std::uint32_t s = 0; s < pass.segments; ++s) {
    const auto start = static_cast<std::int32_t>(pass.reused);
    plan.segments.push_back({SegmentKind::item, draw(pass.tokens), start, {}});
    if (pass.reused > 0) plan.segments.back().sees = {0};
    plan.readouts.push_back({static_cast<std::uint32_t>(plan.segments.size() - 1), pass.tokens - 1, rows});
  }
  return plan;
}

placement::DeviceProfile measure_machine(std::uint32_t cores) {
  constexpr int samples = 20;
  kernels::MultiplyAddRates most;
  for (int i = 0; i < samples; ++i) {
    const kernels::MultiplyAddRates rates = kernels::multiply_add_rates(cores);
    for (std::size_t f = 0; f < rates.by_format.size(); ++f)
      most.by_format[f] = std::fmax(most.by_format[f], rates.by_format[f] * cores);
  }
  if (!(most.f32() > 0))
    throw std::runtime_error(
        "multiply-adds cannot be sampled on this CPU; expected x86-64 with AVX2 or later");
  placement::DeviceProfile machine = placement::times_cores(placement::find_device("cpu"), cores);
  for (std::size_t f = 0; f < most.by_format.size(); ++f)
    machine.peak_ops[static_cast<std::size_t>(weight_cost(static_cast<kernels::WeightFormat>(f)).precision)] =
        most.by_format[f];
  machine.memory_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return machine;
}

Calibration calibrate(const std::vector<CalibrationModel>& models, const CalibrationSetup& setup,
                      const std::function<void(std::uint64_t)>& progress) {
  std::vector<std::vector<CalibrationRow>> rows = rows_of(models);
  std::optional<CorePin> pinned;
  if (setup.cores == 1) pinned.emplace();
  const placement::DeviceProfile machine = measure_machine(setup.cores);
  double expected = 0, done = 0;
  for (const auto& of_model : rows) expected += predicted_sum(machine, of_model);
  Calibration calibration;
  for (std::size_t m = 0; m < models.size(); ++m) {
    std::uint32_t reused_most = 0;
    for (const CalibrationRow& row : rows[m]) reused_most = std::max(reused_most, row.pass.reused);
    PassTimer timer(models[m], setup, reused_most);
    for (CalibrationRow& row : rows[m]) {
      const PassTimer::Seconds seconds = timer.seconds_of(row.pass, setup.rounds);
      row.timed.us = 1e6 * seconds.least;
      row.mean_us = 1e6 * seconds.mean;
      done += predicted_sum(machine, {row});
      // The small addend makes the last value 100, however the sums were rounded.
      progress(static_cast<std::uint64_t>(100 * done / expected + 1e-6));
      calibration.rows.push_back(row);
    }
  }
  calibration.device =
      placement::fit_device(machine, timed(calibration.rows, false), placement::Bandwidth::fitted);
  for (CalibrationRow& row : calibration.rows)
    row.predicted_us = placement::CostModel(calibration.device, row.timed.shape).prefill_us(row.timed.counts);
  calibration.fitted = errors_of(calibration.device, timed(calibration.rows, false));
  calibration.held_out = errors_of(calibration.device, timed(calibration.rows, true));
  return calibration;
}

}  // namespace troupe::deploy
