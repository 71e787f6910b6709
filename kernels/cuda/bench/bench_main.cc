// Times every kernel and whole models on the device. It checks each on random numbers first, and
// prints one table: times beside floors, rates beside ceilings measured in the same run, and the
// times of peers.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>
#include <stdexcept>
#include <string_view>

#include "kernels/cuda/bench/bench_check.h"
#include "kernels/cuda/bench/bench_export.h"
#include "kernels/cuda/bench/bench_model.h"
#include "kernels/cuda/bench/bench_table.h"
#include "kernels/cuda/device/device_lost.h"

using namespace troupe::kernels;
using namespace troupe::kernels::cuda;

namespace {

constexpr std::string_view usage =
    "usage: cuda_bench [--seed N] [--rounds N] [--only TEXT] [--json FILE] [--peers FILE]\n"
    "       cuda_bench --export FOLDER [--seed N]   writes models and works for bench_torch.py, with our "
    "logits\n"
    "       cuda_bench --expected                   prints times expected from data sheets; needs no device\n"
    "       cuda_bench --check [--only TEXT]        checks results without timing\n"
    "       cuda_bench --smoke [--export FOLDER]    tries tiny shapes, prints no rates\n"
    "Exit status: 1 if a result is wrong, 2 for bad arguments, 3 if there is no device.\n";

struct Options {
  bool smoke = false, check = false, expected = false;
  std::uint64_t seed = std::random_device{}();
  unsigned rounds = 15;
  std::string only, json, peers, folder;
};

std::optional<Options> parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--smoke") {
      options.smoke = true;
    } else if (word == "--check") {
      options.check = true;
    } else if (word == "--expected") {
      options.expected = true;
    } else if (i + 1 < count && word == "--seed") {
      options.seed = std::strtoull(words[++i], nullptr, 10);
    } else if (i + 1 < count && word == "--rounds") {
      options.rounds = static_cast<unsigned>(std::max(1, std::atoi(words[++i])));
    } else if (i + 1 < count && word == "--only") {
      options.only = words[++i];
    } else if (i + 1 < count && word == "--json") {
      options.json = words[++i];
    } else if (i + 1 < count && word == "--peers") {
      options.peers = words[++i];
    } else if (i + 1 < count && word == "--export") {
      options.folder = words[++i];
    } else {
      return std::nullopt;
    }
  }
  return options;
}

std::vector<BenchWork> kernel_works(const BenchShape& shape) {
  std::vector<BenchWork> works;
  add_attend_works(shape, works);
  add_product_works(shape, works);
  add_row_works(shape, works);
  add_head_works(shape, works);
  add_realign_works(shape, works);
  return works;
}

bool wanted(const Options& options, const std::string& name) {
  return options.only.empty() || name.find(options.only) != std::string::npos;
}

BenchRow row_of(const BenchWork& work) { return {work.kernel, work.shape, work.steps, work.launches}; }
BenchRow row_of(const BenchShape& shape, const ModelPass& pass) {
  const DecoderConfig config = config_of(shape);
  return {"model", shape.name + ", " + pass.text, pass_costs(config, pass), pass_launches(config)};
}

// Prints the expected times from the rows' costs; needs no device.
int print_expected() {
  std::vector<BenchRow> rows;
  Chance chance(1);
  for (const BenchShape& shape : bench_shapes(false)) {
    for (const ModelPass& pass : model_passes(shape, chance)) rows.push_back(row_of(shape, pass));
    for (const BenchWork& work : kernel_works(shape)) rows.push_back(row_of(work));
  }
  for (const HstuShape& shape : hstu_shapes())
    rows.push_back({"hstu", shape.text, hstu_costs(shape), hstu_launches(shape)});
  print_expectations(rows, std::cout);
  print_tiles(data_sheets().back(), std::cout);
  return 0;
}

// A run of the benchmark, row after row.
class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        chance_(options.seed),
        timer_(options.smoke ? 1 : options.rounds, device_properties(0)) {
    run_.device = device_properties(0);
    run_.seed = options.seed;
    run_.rounds = options.rounds;
    if (!options.peers.empty()) run_.peers = read_peers(options.peers);
  }
  int run();

 private:
  void measure(const BenchWork& work);
  void measure_models(const BenchShape& shape);
  void measure_pass(const std::string& name, ModelBench& model, const ModelPass& pass, BenchRow& row);
  void measure_ceilings_again();
  void add(BenchRow row) {
    if (!row.fault.empty()) std::cerr << "WRONG: " << row.name() << ": " << row.fault << "\n";
    run_.rows.push_back(std::move(row));
  }
  bool exports_only() const { return !options_.folder.empty() && !options_.smoke; }
  bool times() const { return !exports_only() && !options_.check; }
  double size() const { return options_.smoke ? 0 : 1; }

  const Options options_;
  Chance chance_;
  Timer timer_;
  BenchRun run_;
  std::vector<BenchWork> exported_;
  std::vector<ExportedPass> passes_;
};

void Bench::measure(const BenchWork& work) {
  if (!wanted(options_, work.name())) return;
  exported_.push_back(work);
  if (exports_only()) return;
  BenchRow row = row_of(work);
  try {
    const PreparedWork prepared = work.prepare(chance_);
    row.fault = fault_of(prepared, options_.smoke ? 8 : 24, chance_);
    if (row.fault.empty() && times()) row.time = timer_.time(prepared);
  } catch (const DeviceError& error) {  // for example too little memory: the other rows are still useful
    row.fault = error.what();
  }
  add(std::move(row));
}

void Bench::measure_models(const BenchShape& shape) {
  if (!wanted(options_, "model, " + shape.name)) return;
  try {
    const std::filesystem::path folder(options_.folder);
    ModelBench model(shape, options_.seed, options_.folder.empty() ? folder : folder / shape.name);
    const std::string fault = model.check(chance_);
    for (const ModelPass& pass : model_passes(shape, chance_)) {
      BenchRow row = row_of(shape, pass);
      row.fault = fault;
      if (fault.empty()) measure_pass(shape.name, model, pass, row);
      add(std::move(row));
    }
  } catch (const DeviceError& error) {
    add({.kernel = "model", .shape = shape.name, .fault = error.what()});
  }
}

void Bench::measure_pass(const std::string& name, ModelBench& model, const ModelPass& pass, BenchRow& row) {
  ModelBench::Measured measured = model.measure(pass, options_.smoke || options_.check ? 1 : options_.rounds);
  row.time = measured.wall;
  row.parts = measured.parts;
  passes_.push_back({name, row.name(), pass, std::move(measured.logits)});
}

// Measures the ceilings at the end. A device that failed in one row may fail in all later ones; the
// earlier rows are still printed.
void Bench::measure_ceilings_again() {
  run_.after = run_.before;
  try {
    run_.after = timer_.ceilings(size(), chance_);
  } catch (const DeviceError& error) {
    std::cerr << "WRONG: ceilings at the end: " << error.what() << "\n";
  }
}

int Bench::run() {
  std::cerr << "seed " << options_.seed << "\n";
  if (times()) run_.before = timer_.ceilings(size(), chance_);
  for (const BenchShape& shape : bench_shapes(options_.smoke)) {
    measure_models(shape);
    for (const BenchWork& work : kernel_works(shape)) measure(work);
  }
  if (times()) measure_ceilings_again();
  if (!options_.folder.empty()) export_works(options_.folder, options_.seed, exported_, passes_);
  std::size_t wrong = 0;
  for (const BenchRow& row : run_.rows) wrong += row.fault.empty() ? 0 : 1;
  if (options_.smoke || options_.check)
    std::cout << run_.rows.size() << " rows tried, " << wrong << " wrong\n";
  else if (times())
    print_table(run_, std::cout);
  if (!options_.json.empty() && times() && !options_.smoke) write_json(run_, options_.json);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  const std::optional<Options> options = parse(count, words);
  if (!options) {
    std::cerr << usage;
    return 2;
  }
  try {
    if (options->expected) return print_expected();
    if (device_count() == 0) {
      std::cout << "skipped: no CUDA device on this machine\n";
      return 3;
    }
    throw_when_device_lost();  // keeps the rows measured before the loss
    return Bench(*options).run();
  } catch (const std::exception& error) {
    std::cerr << "cuda_bench: " << error.what() << "\n";
    return 1;
  }
}
