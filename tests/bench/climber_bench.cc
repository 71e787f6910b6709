// Runs Climber's passes one at a time on request; climber.py alternates them with those of peers. All
// engines draw requests by the same rule: item 1 + 7919 i mod items, action 4 + i mod 2 (all are liked,
// so every tower is full), candidate 1 + 104729 j mod items.
//   climber_bench MODEL EVENTS CANDIDATES THREADS [f32|int8|unfused]
// `unfused`: float32, with attention as separate operations and layers that are not cut into chunks of rows:
// the engine without its fusions, on the same products.
// Prints a line of JSON when it is ready: the operations of a pass, and the first logits. Each line of
// input is the name of a workload, "all" or "cached" (the history's keys and values are cached). The
// answer is one pass: {"wall_ms": …, "cpu_ms": …, "fma": multiply-add operations a second of a thread
// around the pass}.
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "kernels/climber/cpu_climber.h"
#include "kernels/cpu/products/fma_rate.h"
#include "kernels/testing/unfused_attend_test.h"
#include "tests/bench/bench_pages.h"

using namespace troupe::kernels;

namespace {

double process_cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

ClimberRequest request_of(const ClimberConfig& c, std::size_t events, std::size_t candidates) {
  ClimberRequest request;
  for (std::size_t i = 0; i < events; ++i) {
    request.items.push_back(static_cast<Token>(1 + 7919 * i % c.items));
    request.actions.push_back(static_cast<std::int64_t>(4 + i % 2));
  }
  for (std::size_t j = 0; j < candidates; ++j)
    request.candidates.push_back(static_cast<Token>(1 + 104729 * j % c.items));
  return request;
}

// Counts two operations per multiply-add. In the last layer a history has only keys and values.
double operations(const ClimberConfig& c, const Plan& plan, std::size_t candidates, bool cached) {
  const double d = c.hidden, layers = c.layers, row = 2 * d * (4 * d + 2.0 * c.intermediate),
               n = double(candidates);
  double total = 0;
  for (std::size_t k = 0; k < c.towers.size(); ++k) {
    double history = 0;
    for (const Segment& segment : plan.segments)
      if (segment.features[1] == static_cast<std::int64_t>(k)) history += double(segment.tokens.size());
    total += n * (layers * row + 4 * layers * d * (history + 1));
    if (!cached)
      total += (layers - 1) * (history * row + 4 * d * history * (history + 1) / 2) + history * 4 * d * d;
  }
  const double fused = c.fused(), tasks = double(c.tasks.size());
  return total + 2 * n *
                     (fused * (fused + c.experts * (c.expert_size + tasks)) +
                      tasks * c.head_size * (c.expert_size + 1.0));
}

std::unique_ptr<Executor> make_engine(const char* model, const std::string& kind, unsigned threads) {
  const DecoderOptions options{.page_tokens = 16,
                               .weights = kind == "int8" ? WeightFormat::int8 : WeightFormat::f32,
                               .cores = threads};
  if (kind != "unfused") return make_cpu_climber(read_climber(model), options);
  return make_cpu_climber(read_climber(model), options,
                          {&elementwise(), &gates(), &unfused_attend, &product_version(), false},
                          std::make_shared<Team>(threads));
}

void one_pass(Executor& executor, const Request& request, unsigned threads, std::vector<Reply>& replies) {
  const double rate = fma_rate_together(threads), cpu = process_cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  executor.run({&request, 1}, replies);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const double used = process_cpu_seconds() - cpu;
  std::printf("{\"wall_ms\": %.3f, \"cpu_ms\": %.3f, \"fma\": %.4g}\n", 1e3 * wall.count(), 1e3 * used,
              (rate + fma_rate_together(threads)) / 2);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  if (count < 5)
    return std::fprintf(stderr, "usage: climber_bench MODEL EVENTS CANDIDATES THREADS [f32|int8|unfused]\n"),
           2;
  const std::size_t events = std::strtoul(words[2], nullptr, 10),
                    candidates = std::strtoul(words[3], nullptr, 10);
  const auto threads = static_cast<unsigned>(std::atoi(words[4]));
  const std::string kind = count > 5 ? words[5] : "f32";
  const ClimberConfig config = read_climber_config(words[1]);
  const auto executor = make_engine(words[1], kind, threads);
  const Plan plan = climber_plan(config, request_of(config, events, candidates));
  Request all{&plan, std::vector<SegmentKv>(plan.segments.size())};
  Request cached = all;
  Pages pages;
  for (std::size_t s = 0; s + candidates < plan.segments.size(); ++s)
    cached.kv[s].pages = pages.take(executor->layout(), plan.segments[s].tokens.size());
  std::vector<Reply> replies;
  executor->run({&cached, 1}, replies);
  for (std::size_t s = 0; s + candidates < plan.segments.size(); ++s) cached.kv[s].source = Source::cached;
  executor->run({&all, 1}, replies);
  std::printf("{\"operations\": {\"all\": %.0f, \"cached\": %.0f}, \"first\": [",
              operations(config, plan, candidates, false), operations(config, plan, candidates, true));
  for (std::size_t i = 0; i < 8; ++i)
    std::printf("%s%.7g", i ? ", " : "", double(replies[0].readouts.at(i * config.tasks.size())[0]));
  std::printf("]}\n");
  std::fflush(stdout);
  for (std::string workload; std::getline(std::cin, workload);)
    one_pass(*executor, workload == "cached" ? cached : all, threads, replies);
}
