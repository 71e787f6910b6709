// `troupe-lab bench calibrate`: options, table, JSON and the device profile. Timing and fitting are in
// bench_calibrate.h.
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/data/device_option.h"
#include "deploy/data/text_file.h"
#include "deploy/lab/bench/bench_calibrate.h"
#include "deploy/lab/bench/bench_engine.h"
#include "deploy/lab/bench/bench_result.h"
#include "deploy/lab/commands/command_bench.h"
#include "deploy/lab/what_if/host_fit.h"
#include "deploy/models/cost_shape.h"
#include "deploy/models/model_families.h"
#include "deploy/reports/table.h"
#include "placement/cost/device_profiles.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

struct CalibrateOptions {
  std::string model, weights = "f32", kv = "f32", out, json, name, device;
  std::vector<std::string> profiles;
  std::uint32_t cores = 1, rounds = 3, machine_cores = 1;
};

// Two random models with different layers and widths, so that the fit can separate launch costs
// from low saturation.
std::vector<CalibrationModel> models_of(const CalibrateOptions& options) {
  Config config;
  config.set("model.weights", options.weights);
  config.set("pool.kv_format", options.kv);
  config.set("inference.cores", std::to_string(options.cores));
  config.inference.executors = 1;
  if (!options.model.empty()) {
    const ModelFamily& family = family_of(all_families(), options.model);
    const ModelFacts facts = family.describe(options.model, config);
    return {{options.model, facts.limits, facts.shape, [&family, config, directory = options.model] {
               return family.open(directory, config).engine({}).executor;
             }}};
  }
  std::vector<CalibrationModel> models;
  const kernels::DecoderOptions formats = decoder_options(config);
  for (const char* name : {"tiny", "small"}) {
    const kernels::DecoderConfig shape = shape_config(find_shape(name), kernels::Family::qwen2);
    models.push_back(
        {name, plan_limits(shape), cost_shape(shape, formats.weights, formats.kv, 1),
         [shape, formats] { return kernels::make_cpu_decoder(kernels::random_decoder(shape, 7), formats); }});
  }
  return models;
}

double error_of(const CalibrationRow& row) { return row.predicted_us / row.timed.us - 1; }

void print_rows(std::ostream& out, const Calibration& calibration) {
  constexpr auto right = Table::Align::right;
  Table table({{"model"},
               {"new", right},
               {"reused", right},
               {"measured ms", right},
               {"predicted ms", right},
               {"error", right},
               {"held out"}});
  for (const CalibrationRow& row : calibration.rows) {
    const CalibrationPass& pass = row.pass;
    const std::string segments = pass.segments > 1 ? std::to_string(pass.segments) + "x" : "";
    table.row({row.timed.shape.name, segments + std::to_string(pass.tokens), std::to_string(pass.reused),
               fixed(row.timed.us / 1e3, 3), fixed(row.predicted_us / 1e3, 3),
               (error_of(row) < 0 ? "" : "+") + fixed(100 * error_of(row), 1) + " %",
               pass.held_out ? "yes" : ""});
  }
  table.print(out);
}

void print_notes(std::ostream& out, const Calibration& calibration) {
  const placement::DeviceProfile& d = calibration.device;
  out << d.name << ": efficiency " << fixed(d.efficiency, 3) << " of " << fixed(d.peak_ops[0] / 1e9, 0)
      << " GF (float32; bf16 " << fixed(d.peak_ops[1] / d.peak_ops[0], 2) << " x, int8 "
      << fixed(d.peak_ops[2] / d.peak_ops[0], 2) << " x) and " << fixed(d.bandwidth / 1e9, 1) << " GB/s, "
      << fixed(d.launch_us * d.launches_per_layer, 1) << " us per layer, half saturation at "
      << fixed(d.half_tokens, 1) << " tokens.\nError: median " << percent(calibration.fitted.median)
      << ", largest " << percent(calibration.fitted.max) << " on the fitted passes; median "
      << percent(calibration.held_out.median) << ", largest " << percent(calibration.held_out.max)
      << " on the held-out passes.\n";
}

json to_json(const placement::FitErrors& errors) { return {{"median", errors.median}, {"max", errors.max}}; }

json to_json(const CalibrateOptions& options, const Calibration& calibration) {
  const placement::DeviceProfile& d = calibration.device;
  json all{{"runs", json::array()},
           {"weights", options.weights},
           {"kv", options.kv},
           {"cores", options.cores},
           {"rounds", options.rounds},
           {"device",
            {{"name", d.name},
             {"peak_f32", d.peak_ops[0]},
             {"peak_bf16", d.peak_ops[1]},
             {"peak_int8", d.peak_ops[2]},
             {"bandwidth", d.bandwidth},
             {"efficiency", d.efficiency},
             {"launch_us", d.launch_us},
             {"half_tokens", d.half_tokens}}},
           {"error", {{"fitted", to_json(calibration.fitted)}, {"held_out", to_json(calibration.held_out)}}}};
  for (const CalibrationRow& row : calibration.rows)
    all["runs"].push_back({{"model", row.timed.shape.name},
                           {"segments", row.pass.segments},
                           {"new_tokens", row.timed.counts.new_tokens},
                           {"reused_tokens", row.timed.counts.reused_tokens},
                           {"pairs", row.timed.counts.pairs},
                           {"measured_us", row.timed.us},
                           {"mean_us", row.mean_us},
                           {"predicted_us", row.predicted_us},
                           {"held_out", row.pass.held_out}});
  return all;
}

// Checks the name before the long measurement; device_text would reject it afterwards.
void check_name(const std::string& name) {
  placement::DeviceProfile device = placement::find_device("cpu");
  if (!name.empty()) device.name = name;
  placement::device_text(device);
}

// ---- host work ----

BenchmarkRuns benched_boxes(const std::string& file) {
  BenchmarkRuns benchmarks{read_bench_result(file), {}};
  benchmarks.config.model.directory = benchmarks.result.model;
  apply_settings(benchmarks.config, benchmarks.result.settings);
  return benchmarks;
}

double of_component(const BenchRankRun& run, std::string_view component) {
  double seconds = 0;
  for (const CpuShare& share : run.profile)
    if (share.component == component) seconds += share.seconds;
  return 1e6 * seconds / static_cast<double>(run.requests);
}

void print_host(std::ostream& out, const FittedHost& fitted) {
  constexpr auto right = Table::Align::right;
  Table table({{"policy"},
               {"host, us per request", right},
               {"fitted", right},
               {"error", right},
               {"passes", right},
               {"predicted", right},
               {"error", right}});
  const auto error = [](double is, double of) {
    return (is < of ? "" : "+") + fixed(100 * (is / of - 1), 1) + " %";
  };
  for (const FittedRun& run : fitted.runs) {
    const double passes = of_component(run.measured, "kernels"),
                 said = of_component(run.predicted, "kernels");
    const double requests = static_cast<double>(run.measured.requests);
    const double host = 1e6 * run.measured.cpu_seconds / requests - passes;
    const double host_said = 1e6 * run.predicted.cpu_seconds / requests - said;
    table.row({run.measured.policy, fixed(host, 1), fixed(host_said, 1), error(host_said, host),
               fixed(passes, 1), fixed(said, 1), error(said, passes)});
  }
  table.print(out);
}

// Fits the host's work to profiled runs and adds it to a profile with calibrated passes.
int run_host_fit(const CalibrateOptions& options) {
  if (options.device.empty())
    throw std::invalid_argument(
        "--profiles is given without --device; expected the device profile that was calibrated before");
  check_output(options.out);
  std::vector<BenchmarkRuns> benchmarks;
  for (const std::string& file : options.profiles) benchmarks.push_back(benched_boxes(file));
  FittedHost fitted;
  {
    Progress progress("simulated runs", 100);
    fitted = fit_host_work(benchmarks, device_of(options.device), options.machine_cores,
                           [&](std::uint64_t done, std::uint64_t all) { progress.at(100 * done / all); });
  }
  if (!options.name.empty()) fitted.device.name = options.name;
  print_host(options.out == "-" ? std::cerr : std::cout, fitted);
  if (!options.out.empty()) write_output(options.out, placement::device_text(fitted.device));
  return 0;
}

int run_bench_calibrate(const CalibrateOptions& options) {
  if (!options.profiles.empty()) return run_host_fit(options);
  if (options.out == "-" && options.json == "-")
    throw std::invalid_argument("--out and --json are both -; expected a file for one of them");
  check_name(options.name);
  check_output(options.out);
  check_output(options.json);
  const CalibrationSetup setup{options.cores, options.rounds};
  Calibration calibration;
  {
    Progress progress("timing passes", 100);
    calibration = calibrate(models_of(options), setup, [&](std::uint64_t percent) { progress.at(percent); });
  }
  if (!options.name.empty()) calibration.device.name = options.name;
  const std::string profile = placement::device_text(calibration.device);
  std::ostream& people = options.out == "-" || options.json == "-" ? std::cerr : std::cout;
  print_rows(people, calibration);
  print_notes(people << "\n", calibration);
  if (!options.out.empty()) write_output(options.out, profile);
  if (!options.json.empty()) write_output(options.json, to_json(options, calibration).dump(2) + "\n");
  return 0;
}

}  // namespace

void add_calibrate(Command bench) {
  auto options = std::make_shared<CalibrateOptions>();
  Command command = bench.add_command(
      "calibrate", "Time this machine's passes, fit the cost model to them, and write a device profile");
  command.add_option("--model", options->model,
                     "Model directory to time; default: two models with random weights");
  command.add_option("--cores", options->cores, "Number of cores a pass may use")
      .between(1, 1024)
      .default_shown();
  command.add_option("--weights", options->weights, "Number format of linear layers: f32, int8 or bf16")
      .one_of({"f32", "int8", "bf16"})
      .default_shown();
  command.add_option("--kv", options->kv, "Number format of keys and values: f32, f16 or bf16")
      .one_of({"f32", "f16", "bf16"})
      .default_shown();
  command
      .add_option("--profiles", options->profiles,
                  "Files of bench rank --trace --profile --json, separated by commas: fit the host's work to "
                  "them instead of timing passes, and add it to the profile of --device")
      .comma_separated();
  command.add_option("--device", options->device,
                     "With --profiles: device profile of one core that this command wrote");
  command
      .add_option("--machine-cores", options->machine_cores,
                  "With --profiles: number of cores of the machine that ran them")
      .between(1, 1024)
      .default_shown();
  command.add_option("--rounds", options->rounds, "Number of timed passes of each kind; the fastest counts")
      .between(1, 1000)
      .default_shown();
  command.add_option("--name", options->name, "Name of the written profile; default: cpu-CORES");
  command.add_option("--out", options->out,
                     "Write the device profile (for sim --device) to this file, or - for standard output");
  add_runs_option(command, options->json);
  command.runs([options] { return run_bench_calibrate(*options); });
}

}  // namespace troupe::deploy
