// FLAME's Table 5 on a CPU: requests with Climber's long history and different numbers of candidates, on
// fixed shapes (kernels/executor/fixed_shapes.h) and without.
//   shapes_bench MODEL EVENTS REQUESTS [--any]
// Sizes are 128, 256, 512 and 1,024, drawn evenly as in the paper; --any draws 1 to 1,024, so that fixed
// shapes pad. The ways are: `dynamic`, one executor for any size; `fixed`, one warm executor per shape,
// with padding, where the parts of a request read the history's keys and values that the first part
// wrote; `first`, a new executor for each request, which shows the cost of memory allocation. The ways
// alternate, request by request. First, the parts' answers are compared with the whole's: if they differ, the
// exit status is 1. Latencies are those of one server with random arrivals and a load of
// 0.7, computed from the times of the passes (with the same arrivals for all ways).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/base/thread_clock.h"
#include "kernels/climber/climber.h"
#include "kernels/executor/fixed_shapes.h"
#include "tests/bench/bench_pages.h"

using namespace troupe::kernels;

namespace {

constexpr std::uint32_t kShapes[] = {1024, 512, 256, 128};

ClimberRequest request_of(const ClimberConfig& c, std::size_t events, std::uint32_t begin,
                          std::uint32_t candidates) {
  ClimberRequest request;
  for (std::size_t i = 0; i < events; ++i) {
    request.items.push_back(static_cast<Token>(1 + 7919 * i % c.items));
    request.actions.push_back(static_cast<std::int64_t>(4 + i % 2));
  }
  for (std::size_t j = begin; j < std::size_t{begin} + candidates; ++j)
    request.candidates.push_back(static_cast<Token>(1 + 104729 * j % c.items));
  return request;
}

struct Plans {  // plans of one request: its parts, or the whole
  std::vector<Plan> plans;
  std::vector<std::size_t> executors;
  std::vector<std::uint32_t> candidates = {};  // of each part, without padding
};

Plans cut(const ClimberConfig& config, std::size_t events, std::uint32_t size) {
  Plans parts;
  for (const FixedShapePart& part : cut_to_shapes(size, kShapes)) {
    parts.plans.push_back(climber_plan(config, request_of(config, events, part.begin, part.shape)));
    parts.executors.push_back(
        static_cast<std::size_t>(std::find(kShapes, std::end(kShapes), part.shape) - kShapes));
    parts.candidates.push_back(part.count);
  }
  return parts;
}

double dynamic_seconds(Executor& executor, const Plan& plan) {
  const Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
  std::vector<Reply> replies;
  const double begin = thread_cpu_seconds();
  executor.run({&request, 1}, replies);
  return thread_cpu_seconds() - begin;
}

double fixed_seconds(std::vector<std::unique_ptr<Executor>>& executors, const Plans& parts,
                     std::size_t histories, Pages& pages) {
  std::vector<std::vector<std::byte*>> kept;
  pages.lines.clear();
  if (parts.plans.size() > 1)
    for (std::size_t s = 0; s < histories; ++s)
      kept.push_back(pages.take(executors[0]->layout(), parts.plans[0].segments[s].tokens.size()));
  std::vector<Reply> replies;
  double seconds = 0;
  for (std::size_t p = 0; p < parts.plans.size(); ++p) {
    Request request{&parts.plans[p], std::vector<SegmentKv>(parts.plans[p].segments.size())};
    for (std::size_t s = 0; s < kept.size(); ++s)
      request.kv[s] = {p == 0 ? Source::compute : Source::cached, kept[s]};
    const double begin = thread_cpu_seconds();
    executors[parts.executors[p]]->run({&request, 1}, replies);
    seconds += thread_cpu_seconds() - begin;
  }
  return seconds;
}

// Returns the largest difference between the logits of the whole request and those of its parts; infinity if
// there are more or fewer.
double difference(const ClimberConfig& config, std::size_t events, std::uint32_t size, Executor& whole,
                  std::vector<std::unique_ptr<Executor>>& fixed) {
  const auto logits_of = [](Executor& executor, const Plan& plan) {
    const Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
    return executor.run({&request, 1})[0].readouts;
  };
  const auto wanted = logits_of(whole, climber_plan(config, request_of(config, events, 0, size)));
  const Plans parts = cut(config, events, size);
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t p = 0; p < parts.plans.size(); ++p) {
    const auto found = logits_of(*fixed[parts.executors[p]], parts.plans[p]);
    for (std::size_t i = 0; i < parts.candidates[p] * config.tasks.size(); ++i, ++at) {
      if (at >= wanted.size() || i >= found.size()) return INFINITY;
      worst = std::max(worst, std::abs(double(found[i][0]) - double(wanted[at][0])));
    }
  }
  return at == wanted.size() ? worst : INFINITY;
}

void report(const char* way, const std::vector<double>& seconds, const std::vector<std::uint32_t>& sizes,
            double between) {
  double busy = 0, pairs = 0, arrival = 0, free = 0, total = 0;
  std::mt19937_64 random(11);
  std::exponential_distribution<double> next(1 / between);
  std::vector<double> latencies;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    busy += seconds[i], pairs += sizes[i];
    arrival += next(random);
    free = std::max(free, arrival) + seconds[i];
    latencies.push_back(free - arrival);
    total += free - arrival;
  }
  std::sort(latencies.begin(), latencies.end());
  std::printf(
      "{\"way\": \"%s\", \"requests\": %zu, \"pairs_per_cpu_second\": %.0f, \"service_ms\": %.2f, "
      "\"latency_ms\": %.1f, "
      "\"p99_ms\": %.1f}\n",
      way, seconds.size(), pairs / busy, 1e3 * busy / double(seconds.size()),
      1e3 * total / double(seconds.size()), 1e3 * latencies[latencies.size() * 99 / 100]);
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return std::fprintf(stderr, "usage: shapes_bench MODEL EVENTS REQUESTS [--any]\n"), 2;
  const std::size_t events = std::strtoul(words[2], nullptr, 10),
                    requests = std::strtoul(words[3], nullptr, 10);
  const bool any = count > 4 && std::strcmp(words[4], "--any") == 0;
  const ClimberConfig config = read_climber_config(words[1]);
  const auto dynamic = make_cpu_climber(read_climber(words[1]), {.page_tokens = 16});
  std::vector<std::unique_ptr<Executor>> fixed;
  for (std::uint32_t i = 0; i < std::size(kShapes); ++i) fixed.push_back(dynamic->share(i + 1));
  for (std::size_t i = 0; i < fixed.size(); ++i)
    dynamic_seconds(*fixed[i], climber_plan(config, request_of(config, events, 0, kShapes[i])));
  for (const std::uint32_t size : {1u, 130u, 700u, 1024u})
    if (const double worst = difference(config, events, size, *dynamic, fixed); !(worst < 1e-4))
      return std::fprintf(stderr, "%u candidates in parts: logits differ by %g\n", size, worst), 1;
  std::mt19937 random(5);
  std::vector<std::uint32_t> sizes;
  std::vector<double> times[3];
  Pages pages;
  double padded = 0, asked = 0;
  for (std::size_t i = 0; i < requests; ++i) {
    const std::uint32_t size =
        any ? 1 + static_cast<std::uint32_t>(random() % 1024) : kShapes[random() % std::size(kShapes)];
    const Plan whole = climber_plan(config, request_of(config, events, 0, size));
    const Plans parts = cut(config, events, size);
    for (const std::size_t executor : parts.executors) padded += kShapes[executor];
    asked += size;
    sizes.push_back(size);
    times[0].push_back(dynamic_seconds(*dynamic, whole));
    times[1].push_back(fixed_seconds(fixed, parts, whole.segments.size() - size, pages));
    const auto unused = dynamic->share(9);
    times[2].push_back(dynamic_seconds(*unused, whole));
  }
  double busy = 0;
  for (const double seconds : times[0]) busy += seconds;
  const double between = busy / double(requests) / 0.7;
  std::printf("{\"candidates\": %.0f, \"with_padding\": %.0f}\n", asked, padded);
  report("dynamic", times[0], sizes, between);
  report("fixed", times[1], sizes, between);
  report("first", times[2], sizes, between);
}
