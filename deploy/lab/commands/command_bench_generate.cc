// `troupe-lab bench generate`: options, table and JSON. The measurement is in bench_generate.h.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "deploy/data/text_file.h"
#include "deploy/lab/bench/bench_engine.h"
#include "deploy/lab/bench/bench_generate.h"
#include "deploy/lab/commands/command_bench.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

struct BenchGenerateOptions {
  std::string model, data, shape, weights = "f32", kv = "f32", json;
  std::vector<std::string> engines{"troupe"}, normalised{"vocabulary", "allowed"};
  std::uint32_t width = 128, threads = 1, vocabulary = 0, codes = 256;
  std::size_t requests = 50, history_items = 20, prompt = 1024;
  std::uint64_t seed = 7;
  bool prefill = false, random_weights = false;
};

double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

double share_of(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

struct BeamFigures {
  double qps, p50_ms, p99_ms, cpu_ms, attention_share, search_share, recall_at_10;
};

BeamFigures figures_of(const GenerateRun& run) {
  const auto requests = static_cast<double>(run.requests);
  const double judged = static_cast<double>(std::max<std::uint64_t>(1, run.judged));
  return {1e3 * requests / total(run.wall_ms),
          share_of(run.wall_ms, 0.5),
          share_of(run.wall_ms, 0.99),
          total(run.cpu_ms) / requests,
          run.attention_operations / run.times.attention / run.fma_rate,
          1e3 * run.times.search / total(run.cpu_ms),
          static_cast<double>(run.hits_at_10) / judged};
}

void print_runs(std::ostream& out, const std::vector<GenerateRun>& runs) {
  constexpr auto right = Table::Align::right;
  Table table({{"engine"},
               {"normalised"},
               {"requests/s", right},
               {"P50 ms", right},
               {"P99 ms", right},
               {"CPU ms", right},
               {"attention of FMA", right},
               {"KV MB", right},
               {"returned", right},
               {"invalid", right},
               {"duplicate", right},
               {"recall@10", right}});
  for (const GenerateRun& run : runs) {
    const BeamFigures f = figures_of(run);
    table.row({std::string(run.engine.name), std::string(normalisation_name(run.normalised)), fixed(f.qps, 2),
               fixed(f.p50_ms, 2), fixed(f.p99_ms, 2), fixed(f.cpu_ms, 2), percent(f.attention_share),
               fixed(static_cast<double>(run.kv_bytes_peak) * 1e-6, 2), std::to_string(run.returned),
               std::to_string(run.invalid), std::to_string(run.duplicate),
               run.judged > 0 ? fixed(f.recall_at_10, 4) : ""});
  }
  table.print(out);
}

json to_json(const GenerateRun& run, std::uint32_t width) {
  const BeamFigures f = figures_of(run);
  const kernels::PassTimes& t = run.times;
  return {{"engine", run.engine.name},
          {"normalised", normalisation_name(run.normalised)},
          {"width", width},
          {"requests", run.requests},
          {"qps", f.qps},
          {"p50_ms", f.p50_ms},
          {"p99_ms", f.p99_ms},
          {"cpu_ms", f.cpu_ms},
          {"returned_items", run.returned},
          {"invalid_items", run.invalid},
          {"duplicate_items", run.duplicate},
          {"probability", run.probability},
          {"recall_at_10", run.judged > 0 ? json(f.recall_at_10) : json()},
          {"kv_bytes_peak", run.kv_bytes_peak},
          {"mask_bytes", run.mask_bytes},
          {"fma_gflops", run.fma_rate * 1e-9},
          {"attention_share_of_fma", f.attention_share},
          {"search_share_of_cpu", f.search_share},
          {"cpu_ms_by_part",
           {{"linear", t.linear * 1e3},
            {"attention", t.attention * 1e3},
            {"readout", t.readout * 1e3},
            {"search", t.search * 1e3},
            {"elementwise", t.elementwise * 1e3},
            {"keys_values", t.keys_values * 1e3},
            {"planning", t.planning * 1e3}}}};
}

GenerateWork work_of(const BenchGenerateOptions& options) {
  if (options.model.empty() != options.data.empty() || options.model.empty() == options.shape.empty())
    throw std::invalid_argument(
        "bench generate has no single source of requests; expected --model and --data, or --shape alone");
  if (!options.shape.empty())
    return random_generate_work(
        {options.shape, options.prompt, options.requests, options.seed, options.vocabulary, options.codes});
  GenerateWork work = read_generate_work(options.model, options.data, options.history_items);
  if (options.random_weights) work.model = kernels::random_decoder(work.model.config, options.seed);
  if (options.requests > 0 && options.requests < work.data.events.size())
    work.data.events.resize(options.requests);
  return work;
}

int run_bench_generate(const BenchGenerateOptions& options) {
  check_output(options.json);
  GenerateSetup setup;
  for (const std::string& name : options.engines) setup.engines.push_back(find_beam_engine(name));
  setup.width = options.width;
  setup.threads = options.threads;
  setup.weights = *kernels::find_weight_format(options.weights);
  setup.kv = *kernels::find_kv_format(options.kv);
  setup.cached = !options.prefill;
  setup.normalised.clear();
  for (const std::string& name : options.normalised) setup.normalised.push_back(find_normalisation(name));
  const GenerateWork work = work_of(options);
  std::vector<GenerateRun> runs;
  std::uint32_t cores = 0;
  {
    std::optional<CorePin> alone;
    if (options.threads == 1) alone.emplace();
    cores = usable_cores();
    runs = run_generate(work, setup);
  }
  std::ostream& people = options.json == "-" ? std::cerr : std::cout;
  print_runs(people, runs);
  json all{{"runs", json::array()},         {"model", work.name},
           {"threads", options.threads},    {"cores", cores},
           {"weights", options.weights},    {"kv", options.kv},
           {"prompt_cached", setup.cached}, {"random_weights", options.random_weights}};
  if (!options.shape.empty()) {
    all["prompt_tokens"] = options.prompt;
    all["vocabulary"] = work.model.config.vocabulary;
    all["codes"] = options.codes;
  }
  for (const GenerateRun& run : runs) all["runs"].push_back(to_json(run, options.width));
  if (!options.json.empty()) write_output(options.json, all.dump(2) + "\n");
  return 0;
}

}  // namespace

void add_generate_bench(Command bench) {
  auto options = std::make_shared<BenchGenerateOptions>();
  Command command = bench.add_command(
      "generate", "Measure the engine's beam search alone: time, memory and valid items, beside baselines");
  command.add_option("--model", options->model, "Model directory; requires --data");
  command.add_option("--data", options->data,
                     "Folder with catalog and sequences, as for import; each test event is a request");
  command
      .add_option("--shape", options->shape,
                  "Use random weights of this shape instead of a model: tiny, small or qwen05")
      .one_of({"tiny", "small", "qwen05"});
  command.add_option("--prompt", options->prompt, "With --shape: tokens per prompt").default_shown();
  command
      .add_option("--vocabulary", options->vocabulary,
                  "With --shape: tokens of the model; 0: the shape's 32768")
      .between(0, 1'000'000)
      .default_shown();
  command
      .add_option("--codes", options->codes,
                  "With --shape: tokens of each of the three levels of an identifier")
      .between(1, 333'333)
      .default_shown();
  command
      .add_option("--engines", options->engines,
                  "Search variants, separated by commas: troupe, independent, tree, full sort, unconstrained")
      .comma_separated()
      .default_shown();
  command.add_option("--width", options->width, "Beam width: paths kept at each step")
      .between(1, kernels::search_width_max)
      .default_shown();
  command.add_option("--requests", options->requests, "Number of prompts; 0: all test events")
      .default_shown();
  command.add_option("--history", options->history_items, "Number of newest history items in the prompt")
      .between(0, 10000)
      .default_shown();
  command.add_option("--threads", options->threads, "Number of cores a pass may use")
      .between(1, 1024)
      .default_shown();
  command.add_option("--weights", options->weights, "Number format of linear layers: f32, int8 or bf16")
      .one_of({"f32", "int8", "bf16"})
      .default_shown();
  command.add_option("--kv", options->kv, "Number format of keys and values: f32, f16 or bf16")
      .one_of({"f32", "f16", "bf16"})
      .default_shown();
  command.add_flag("--prefill", options->prefill,
                   "Also compute the prompts; by default all prompt tokens but the last are cached");
  command
      .add_option("--normalised", options->normalised,
                  "Tokens over which probabilities are normalized, separated by commas: vocabulary, or "
                  "allowed (those that may follow); each engine runs with each")
      .comma_separated()
      .default_shown();
  command.add_flag("--random-weights", options->random_weights,
                   "Use the model's shape with random weights (--seed)");
  command.add_option("--seed", options->seed, "Seed of random weights and prompts").default_shown();
  add_runs_option(command, options->json);
  command.runs([options] { return run_bench_generate(*options); });
}

}  // namespace troupe::deploy
