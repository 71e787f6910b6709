// Measures one request of a SASRec on this CPU: a history and the scores of candidates, all computed, or,
// with --cached, all but the last event reused from pages.
//   sasrec_bench --model DIRECTORY [--rounds N] [--history H] [--candidates C] [--cached]
// Prints the CPU milliseconds of each round and the first two logits. tests/bench/peers/sasrec_torch.py
// runs it beside other engines.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/base/thread_clock.h"
#include "kernels/sasrec/sasrec.h"
#include "tests/bench/bench_pages.h"

using namespace troupe::kernels;

namespace {

struct SasrecBench {
  std::string model;
  std::size_t history = 1000, candidates = 100, rounds = 5;
  bool cached = false;
};

std::vector<Token> items_of(std::size_t count, std::size_t step, const SasrecConfig& config) {
  std::vector<Token> items;
  for (std::size_t i = 0; i < count; ++i)
    items.push_back(static_cast<Token>(1 + step * i % (config.vocabulary - 1)));
  return items;
}

nlohmann::json run_bench(const SasrecBench& bench) {
  SasrecModel model = read_sasrec(bench.model);
  const SasrecConfig config = model.config;
  if (bench.history < 2 || bench.history > config.history_max)
    throw LoadError("--history is " + std::to_string(bench.history) + "; expected 2 to " +
                    std::to_string(config.history_max) + ", the model's");
  const Plan plan =
      sasrec_plan(items_of(bench.history, 7919, config), items_of(bench.candidates, 104'729, config));
  const auto executor = make_cpu_sasrec(std::move(model), {.page_tokens = 16});
  Pages pages;
  Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
  std::vector<Reply> replies;
  if (bench.cached) request.kv[0].pages = pages.take(executor->layout(), plan.segments[0].tokens.size());
  executor->run({&request, 1}, replies);  // sizes the buffers, and fills the pages
  if (bench.cached) request.kv[0].source = Source::cached;
  nlohmann::json rounds = nlohmann::json::array();
  for (std::size_t round = 0; round < bench.rounds; ++round) {
    const double began = thread_cpu_seconds();
    executor->run({&request, 1}, replies);
    rounds.push_back((thread_cpu_seconds() - began) * 1e3);
  }
  const std::vector<float>& logits = replies[0].readouts[0];
  return {{"cpu_ms", rounds}, {"logits", {logits[0], logits[1]}}};
}

}  // namespace

int main(int argc, char** argv) try {
  SasrecBench bench;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--cached") {
      bench.cached = true;
      continue;
    }
    const char* const value = i + 1 < argc ? argv[++i] : "";
    if (word == "--model")
      bench.model = value;
    else if (word == "--history")
      bench.history = std::strtoull(value, nullptr, 10);
    else if (word == "--candidates")
      bench.candidates = std::strtoull(value, nullptr, 10);
    else if (word == "--rounds")
      bench.rounds = std::strtoull(value, nullptr, 10);
    else
      return std::fprintf(stderr, "%s: unknown option; see the head of tests/bench/sasrec_bench.cc\n",
                          word.c_str()),
             2;
  }
  if (bench.candidates < 2 || bench.rounds < 1)
    return std::fprintf(stderr, "expected at least 2 candidates and 1 round\n"), 2;
  std::printf("%s\n", run_bench(bench).dump().c_str());
  return 0;
} catch (const std::exception& error) {
  return std::fprintf(stderr, "sasrec_bench: %s\n", error.what()), 1;
}
