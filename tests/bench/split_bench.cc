// Fits the size from which splitting a stage between cores pays (xGR §5.2; kernels/cpu/engine/split_fit.h).
// It times attention on keys of several lengths, in twenty regions of one pass, alternately alone and with
// helpers; the minimum wall time of some rounds counts. Then it runs whole searches of the benchmarks'
// tiny shape, with decoders that split from 0, a tenth of the fit, the fit, ten times the fit, and never.
// The fit must be near the best.
//   split_bench [--cores N] [--rounds N] [--json FILE]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/engine/cpu_decoder.h"
#include "kernels/cpu/engine/split_fit.h"

using namespace troupe::kernels;

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct SearchShape {
  std::uint32_t width, prompt;
};

DecoderConfig tiny_config() {
  DecoderConfig config;
  config.layers = 4, config.hidden = 128, config.heads = 4, config.kv_heads = 2, config.head_dim = 32;
  config.intermediate = 512, config.vocabulary = 8192, config.positions_max = 4096;
  return config;
}

// Runs five searches on each of several concurrent executors, or one search on one.
void run(Executor& decoder, const Request& request, std::uint32_t executors) {
  std::vector<Reply> replies;
  if (executors == 1) return decoder.run({&request, 1}, replies);
  std::vector<std::thread> threads;
  for (std::uint32_t e = 0; e < executors; ++e)
    threads.emplace_back([&decoder, &request, e] {
      const std::unique_ptr<Executor> own = decoder.share(e);
      std::vector<Reply> answers;
      for (int search = 0; search < 5; ++search) own->run({&request, 1}, answers);
    });
  for (std::thread& thread : threads) thread.join();
}

// Returns milliseconds of a search with a cached prompt, the minimum of some rounds, for each threshold;
// below 0: as the engine splits. `busy`: with five searches on each core.
std::vector<double> search_ms(const SearchShape& shape, const std::vector<double>& thresholds,
                              std::uint32_t cores, int rounds, bool busy) {
  std::mt19937 random(2);
  std::vector<std::vector<Token>> paths;
  for (int i = 0; i < 20000; ++i)
    paths.push_back({Token(random() % 256), Token(2000 + random() % 256), Token(4000 + random() % 256)});
  const std::vector<std::span<const Token>> views(paths.begin(), paths.end());
  const auto index = std::make_shared<const PathIndex>(views);
  std::vector<std::unique_ptr<Executor>> decoders;
  const DecoderModel model = random_decoder(tiny_config(), 3);
  for (const double threshold : thresholds) {
    DecoderOptions options;
    options.cores = cores;
    Teams teams;
    if (threshold < 0)
      teams = make_teams(cores, 1, {});
    else
      teams.push_back(std::make_unique<Team>(cores, CpuSet(), threshold));
    decoders.push_back(make_cpu_decoder(
        model, options, {&elementwise(), &attend, &readout_rows, &sum_exponentials, &product_version()},
        std::move(teams)));
  }
  Plan plan;
  std::vector<Token> prompt;
  for (std::uint32_t t = 0; t < shape.prompt; ++t) prompt.push_back(Token(random() % 8192));
  plan.segments = {{SegmentKind::user, prompt, 0, {}}};
  const PageLayout& layout = decoders[0]->layout();
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> memory;
  Request request{&plan, {{}}};
  for (std::size_t p = 0; p < layout.pages_for(prompt.size()); ++p) {
    memory.emplace_back(static_cast<std::byte*>(std::aligned_alloc(64, (layout.page_bytes() + 63) / 64 * 64)),
                        &std::free);
    request.kv[0].pages.push_back(memory.back().get());
  }
  std::vector<Reply> replies;
  decoders[0]->run({&request, 1}, replies);
  request.kv[0].source = Source::cached;
  plan.search.width = plan.search.results = shape.width;
  request.assets = std::make_shared<PathAssets>(index);
  std::vector<double> least(thresholds.size(), 1e9);
  for (int round = 0; round <= rounds; ++round)
    for (std::size_t d = 0; d < decoders.size(); ++d) {
      const double begin = now_seconds();
      run(*decoders[d], request, busy ? cores : 1);
      if (round > 0) least[d] = std::min(least[d], 1e3 * (now_seconds() - begin));
    }
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint32_t cores = 2;
  int rounds = 15;
  std::string json;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--cores")) cores = static_cast<std::uint32_t>(std::atoi(argv[i + 1]));
    if (!std::strcmp(argv[i], "--rounds")) rounds = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--json")) json = argv[i + 1];
  }
  if (cores < 2 || rounds < 1)
    return std::fprintf(stderr, "split_bench: expected at least two cores and one round\n"), 2;
  constexpr std::uint32_t keys[] = {4, 16, 40, 100, 250, 600, 1500, 4000};
  const std::vector<SplitPoint> points = measure_split(cores, keys, 4 * rounds, INFINITY);
  std::string out = "{\n \"cores\": " + std::to_string(cores) + ",\n \"regions\": [";
  const SplitFit fit = fit_split(points, cores);
  double worst = 0;
  for (const SplitPoint& p : points) {
    const double off = std::max(std::abs(fit.alone(p.operations) / p.alone - 1),
                                std::abs(fit.split(p.operations, cores) / p.split - 1));
    worst = std::max(worst, off);
    std::printf("%10.2e operations: alone %9.2f us (fit %9.2f), split %9.2f us (fit %9.2f)\n", p.operations,
                1e6 * p.alone, 1e6 * fit.alone(p.operations), 1e6 * p.split,
                1e6 * fit.split(p.operations, cores));
    out += std::string(out.back() == '[' ? "" : ",") +
           "\n  {\"operations\": " + std::to_string(p.operations) +
           ", \"alone_us\": " + std::to_string(1e6 * p.alone) +
           ", \"split_us\": " + std::to_string(1e6 * p.split) + "}";
  }
  const double least = fit.worth_splitting(cores);
  std::printf(
      "fit: %.3e operations a second behind %.2f us, %.2f us to meet, %.3f of a core for each helper; worth "
      "splitting from %.2e "
      "operations (%.1f us); the engine does so from %.2e, measured at its start\n",
      fit.rate, 1e6 * fit.begin, 1e6 * fit.meet, fit.share, least, 1e6 * fit.alone(least), fitted_split());
  out += "\n ],\n \"fit\": {\"rate\": " + std::to_string(fit.rate) +
         ", \"begin_us\": " + std::to_string(1e6 * fit.begin) +
         ", \"meet_us\": " + std::to_string(1e6 * fit.meet) + ", \"share\": " + std::to_string(fit.share) +
         ", \"worst_relative_error\": " + std::to_string(worst) +
         ", \"worth_splitting\": " + std::to_string(least) + "},\n \"searches\": [";
  const std::vector<double> thresholds{0, least / 10, least, 10 * least, 1e7, INFINITY, -1};
  std::printf("searches, ms, split from: all, a tenth, the fit, ten times, 1e7, never; as the engine does\n");
  constexpr SearchShape shapes[] = {{4, 64}, {16, 64}, {64, 256}, {128, 1024}, {512, 1024}};
  for (std::size_t i = 0; i < 2 * std::size(shapes); ++i) {
    const SearchShape& shape = shapes[i % std::size(shapes)];
    const bool busy = i >= std::size(shapes);
    const std::vector<double> ms = search_ms(shape, thresholds, cores, rounds, busy);
    std::printf("%s width %3u, prompt %4u:", busy ? "five on each core," : "one search,       ", shape.width,
                shape.prompt);
    out += std::string(out.back() == '[' ? "" : ",") + "\n  {\"busy\": " + (busy ? "true" : "false") +
           ", \"width\": " + std::to_string(shape.width) + ", \"prompt\": " + std::to_string(shape.prompt) +
           ", \"ms\": [";
    for (const double one : ms) {
      std::printf(" %8.3f", one);
      out += (out.back() == '[' ? "" : ", ") + std::to_string(one);
    }
    std::printf("\n");
    out += "]}";
  }
  out +=
      "\n ],\n \"thresholds\": [\"0\", \"fit / 10\", \"fit\", \"10 x fit\", \"1e7\", \"never\", \"the "
      "engine\"]\n}\n";
  if (!json.empty()) std::ofstream(json) << out;
  return 0;
}
