#include "deploy/lab/bench/bench_calibrate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "deploy/lab/bench/bench_engine.h"
#include "deploy/models/cost_shape.h"
#include "placement/cost/device_profiles.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

CalibrationModel micro(std::uint32_t positions) {
  kernels::DecoderConfig config = shape_config({"micro", 2, 64, 2, 1, 96}, kernels::Family::qwen2);
  config.head_dim = 32;
  config.vocabulary = 300;
  config.positions_max = positions;
  return {"micro", plan_limits(config),
          cost_shape(config, kernels::WeightFormat::f32, kernels::KvFormat::f32, 1),
          [config] { return kernels::make_cpu_decoder(kernels::random_decoder(config, 3), {}); }};
}

}  // namespace

TEST_SUITE("bench calibrate") {
  TEST_CASE("calibration passes: each is a valid plan within the positions, and its counted work is right") {
    for (const std::uint32_t positions : {512u, 1600u, 32768u})
      for (const CalibrationPass& pass : calibration_passes(positions)) {
        const kernels::Plan plan = plan_of(pass, 300);
        CHECK(validate(plan, {300, static_cast<std::int32_t>(positions)}) == "");
        const placement::Pass work = work_of(pass);
        CHECK(kernels::token_count(plan) == work.new_tokens + work.reused_tokens);
        CHECK(plan.readouts.size() == work.readouts);
        const WorkloadPlan counted{plan, pass.reused > 0};
        kernels::DecoderConfig one_head;
        one_head.layers = 2;
        one_head.heads = one_head.head_dim = 1;
        double last = 0;  // pairs of the read tokens, the only ones in the last layer
        for (const auto& readout : plan.readouts) last += pass.reused + readout.offset + 1;
        CHECK(useful_flops(one_head, counted).attention == 4 * (static_cast<double>(work.pairs) + last));
      }
  }

  TEST_CASE("calibration passes: a third is held out, including a ranking request") {
    const std::vector<CalibrationPass> passes = calibration_passes(8192);
    const auto held_out = std::count_if(passes.begin(), passes.end(), [](auto& p) { return p.held_out; });
    CHECK(passes.size() == 31);
    CHECK(held_out == 11);
    CHECK(passes.back().segments == 100);
    CHECK(passes.back().held_out);
    CHECK(work_of(passes.back()).pairs == 1'505'500);
    CHECK(work_of(passes.back()).reused_tokens == 1500);
  }

  TEST_CASE("cost shape: it has the decoder's sizes and the bytes of its number formats") {
    const kernels::DecoderConfig tiny = shape_config(find_shape("tiny"), kernels::Family::qwen2);
    const placement::ModelShape f32 =
        cost_shape(tiny, kernels::WeightFormat::f32, kernels::KvFormat::bf16, 2);
    CHECK(validate(f32) == "");
    CHECK(f32.layer_parameters() == 65'536 + 917'504);
    CHECK(f32.kv_token_bytes() == 4 * 2 * 2 * 64 * 2);
    CHECK(f32.weight_bytes == 4);
    const placement::ModelShape int8 =
        cost_shape(tiny, kernels::WeightFormat::int8, kernels::KvFormat::f32, 2);
    CHECK(int8.linear == placement::Precision::int8);
    CHECK(int8.attention == placement::Precision::f32);
    CHECK(int8.weight_bytes == 1);
    const placement::ModelShape bf16 =
        cost_shape(tiny, kernels::WeightFormat::bf16, kernels::KvFormat::bf16, 2);
    CHECK(bf16.linear == placement::Precision::bf16);
    CHECK(bf16.attention == placement::Precision::bf16);
    CHECK(f32.attention == placement::Precision::f32);
  }

  TEST_CASE("measure_machine: the peaks of float32, bf16 and int8 are sampled, each by its own instruction") {
    const placement::DeviceProfile machine = measure_machine(1);
    for (const double peak : machine.peak_ops) CHECK(peak > 0);
    CHECK(machine.peak_ops[1] != machine.peak_ops[0]);
    CHECK(machine.peak_ops[2] != machine.peak_ops[0]);
  }

  TEST_CASE("calibrate: every pass of every model is timed, and the profile can be written and read again") {
    std::uint64_t last = 0;
    const Calibration calibration =
        calibrate({micro(600), micro(2000)}, {.cores = 1, .rounds = 1}, [&](std::uint64_t percent) {
          CHECK(percent >= last);
          last = percent;
        });
    CHECK(last >= 99);
    CHECK(calibration.rows.size() == calibration_passes(600).size() + calibration_passes(2000).size());
    double worst_fitted = 0, worst_held_out = 0;
    for (const CalibrationRow& row : calibration.rows) {
      CHECK(row.timed.us > 0);
      double& worst = row.pass.held_out ? worst_held_out : worst_fitted;
      worst = std::max(worst, std::abs(row.predicted_us / row.timed.us - 1));
    }
    CHECK(calibration.fitted.max == worst_fitted);
    CHECK(calibration.held_out.max == worst_held_out);
    CHECK(validate(calibration.device) == "");
    CHECK(calibration.device.name == "cpu-1");
    CHECK(calibration.device.trims_last_layer);
    const std::string text = device_text(calibration.device);
    CHECK(device_text(placement::parse_device(text, "here")) == text);
  }

  TEST_CASE("calibrate: a model with too few positions is refused before anything is timed") {
    CalibrationModel model = micro(100);
    model.load = []() -> std::unique_ptr<kernels::Executor> { throw std::logic_error("loaded"); };
    CHECK_THROWS_WITH_AS(calibrate({model}, {}, [](std::uint64_t) {}),
                         "micro has 100 positions; expected at least 512", std::invalid_argument);
  }
}
