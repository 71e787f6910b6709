// Measures HSTU's passes on this CPU, and how near its attention comes to the multiply-add rate that is
// sampled right before and after each pass. The weights are generated, in the shape of random-hstu-512,
// longer and deeper on request. A pass computes a history with its candidates, or, with --cached, only
// its last event. The rate is per second of thread CPU time, because a neighbour on the physical core can
// halve both.
//   hstu_bench [--json FILE] [--rounds N] [--layers L] [--history H] [--candidates C] [--production]
//   [--cached]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/base/thread_clock.h"
#include "kernels/cpu/products/fma_rate.h"
#include "kernels/hstu/hstu.h"
#include "kernels/hstu/hstu_plan.h"

using namespace troupe::kernels;

namespace {

struct HstuBench {
  std::uint32_t layers = 3, history = 1000, candidates = 100, rounds = 3;
  bool production = false, cached = false;
  std::string json;
};

HstuConfig config_of(const HstuBench& bench) {
  HstuConfig c;
  if (bench.production) c.kind = HstuLayerKind::stu;
  c.layers = bench.layers;
  c.hidden = 512, c.heads = 4, c.head_dim = 128;
  c.vocabulary = 100'001;
  c.positions = bench.history + 1;
  c.normaliser = c.positions;
  c.scale = bench.production ? 1 / std::sqrt(128.0) : 1;
  c.temperature = 0.05;
  c.head_hidden = 64, c.tasks = 1;
  if (!bench.production) c.time_buckets = 128, c.bucket_divisor = 0.301;
  return c;
}

// Draws times in bursts: most events follow soon, some after days.
HstuRequest request_of(const HstuBench& bench) {
  HstuRequest request;
  std::uint64_t state = 1;
  const auto next = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; };
  std::int64_t now = 1'600'000'000;
  for (std::uint32_t i = 0; i < bench.history; ++i) {
    request.items.push_back(static_cast<Token>(1 + next() % 100'000));
    request.times.push_back(now);
    now += static_cast<std::int64_t>(next() % 10 == 0 ? next() % 200'000 : next() % 600);
  }
  request.now = now;
  for (std::uint32_t i = 0; i < bench.candidates; ++i)
    request.candidates.push_back(static_cast<Token>(1 + next() % 100'000));
  return request;
}

struct Memory {
  std::vector<std::byte> bytes;
  std::vector<std::byte*> pages;
};

Memory pages_for(const PageLayout& layout, std::size_t tokens) {
  const std::size_t stride = (layout.bytes + 63) / 64 * 64, count = layout.pages_for(tokens);
  Memory memory{std::vector<std::byte>(stride * count + 64), {}};
  auto* first = memory.bytes.data();
  while (reinterpret_cast<std::uintptr_t>(first) % 64 != 0) ++first;
  for (std::size_t p = 0; p < count; ++p) memory.pages.push_back(first + p * stride);
  return memory;
}

// Counts computed pairs of a row and a visible key in all layers; in the last layer only for rows that
// are read.
double pairs_of(const HstuBench& b) {
  const double h = b.history, c = b.candidates;
  const double rows = b.cached ? h : h * (h + 1) / 2, read = c * (h + 1) + h;
  return (b.layers - 1) * (rows + c * (h + 1)) + read;
}

// Counts operations of the products with weights, two per multiply-add; in the last layer queries, gates
// and outputs only for rows that are read. Input and output layers, norms, biases and activations are not
// counted.
double linear_operations(const HstuBench& b, const HstuConfig& config) {
  const double rows = (b.cached ? 1 : b.history) + b.candidates, read = b.candidates + 1;
  // Operations of one row with the weights of one projection. A layer has four projections and the output.
  const double one = 2.0 * config.hidden * config.width();
  const double output = b.production ? 3 : 1;  // the output projection reads this many widths
  return one * ((b.layers - 1) * (4 + output) * rows + 2 * rows + (2 + output) * read);
}

nlohmann::json run_bench(const HstuBench& bench) {
  const HstuConfig config = config_of(bench);
  HstuModel model = generated_hstu(config);
  const std::string version = model.version;
  const auto executor = make_cpu_hstu(std::move(model), {.page_tokens = 16});
  const Plan plan = hstu_plan(config, request_of(bench));
  Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
  Memory memory;
  std::vector<Reply> replies;
  if (bench.cached) {
    memory = pages_for(executor->layout(), plan.segments[0].tokens.size());
    request.kv[0].pages = memory.pages;
    executor->run({&request, 1}, replies);
    request.kv[0].source = Source::cached;
  }
  executor->run({&request, 1}, replies);  // sizes the buffers
  nlohmann::json rounds = nlohmann::json::array();
  for (std::uint32_t round = 0; round < bench.rounds; ++round) {
    PassTimes times;
    executor->measure(&times);
    const double before = fma_rate(widest_fma()), cpu = thread_cpu_seconds();
    const auto began = std::chrono::steady_clock::now();
    executor->run({&request, 1}, replies);
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    const double seconds = thread_cpu_seconds() - cpu, rate = (before + fma_rate(widest_fma())) / 2;
    const double attention = 4 * pairs_of(bench) * config.width();
    rounds.push_back({{"wall_ms", wall * 1e3},
                      {"cpu_ms", seconds * 1e3},
                      {"attention_ms", times.attention * 1e3},
                      {"linear_ms", times.linear * 1e3},
                      {"elementwise_ms", times.elementwise * 1e3},
                      {"planning_ms", times.planning * 1e3},
                      {"keys_values_ms", times.keys_values * 1e3},
                      {"readout_ms", times.readout * 1e3},
                      {"fma_gflops", rate / 1e9},
                      {"attention_share", attention / times.attention / rate},
                      // Time of these products at that rate: no engine that computes them in f32 is faster.
                      {"floor_ms", (attention + linear_operations(bench, config)) / rate * 1e3}});
  }
  return {
      {"layer", bench.production ? "production" : "research"},
      {"layers", bench.layers},
      {"history", bench.history},
      {"candidates", bench.candidates},
      {"cached", bench.cached},
      {"instructions", widest_fma()},
      {"rounds", rounds},
      {"task_logits",
       {replies[0].readouts[bench.production ? 0 : 1][0], replies[0].readouts[bench.production ? 1 : 2][0]}}};
}

}  // namespace

int main(int argc, char** argv) {
  HstuBench bench;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return static_cast<std::uint32_t>(i + 1 < argc ? std::atol(argv[++i]) : 0); };
    if (word == "--layers")
      bench.layers = number();
    else if (word == "--history")
      bench.history = number();
    else if (word == "--candidates")
      bench.candidates = number();
    else if (word == "--rounds")
      bench.rounds = number();
    else if (word == "--production")
      bench.production = true;
    else if (word == "--cached")
      bench.cached = true;
    else if (word == "--json" && i + 1 < argc)
      bench.json = argv[++i];
    else
      return std::fprintf(stderr, "%s: unknown option; see the head of tests/bench/hstu_bench.cc\n",
                          word.c_str()),
             2;
  }
  if (bench.layers < 1 || bench.history < 2 || bench.candidates < 2 || bench.rounds < 1)
    return std::fprintf(stderr, "expected at least 1 layer, 2 events, 2 candidates and 1 round\n"), 2;
  const nlohmann::json result = run_bench(bench);
  if (!bench.json.empty()) std::ofstream(bench.json) << result.dump(1) << "\n";
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
