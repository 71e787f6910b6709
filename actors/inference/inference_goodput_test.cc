// Goodput under overload, in virtual time. Ten times as many plans arrive as the device can
// compute, and yet almost all that it computes is answered in time (promise 10).
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace {

using namespace inference_test;

constexpr std::int64_t us_per_token = 100;
constexpr double overload = 10;

// A plan is identified by its unique time of arrival, which is the token of its only readout.
struct Overload {
  std::mt19937 random;
  std::uint32_t slots;
  Bench b{config(slots)};
  std::int64_t now = 0, next_arrival = 1;
  std::map<RequestId, std::int64_t> deadline;
  // Running jobs, by their end.
  std::multimap<std::int64_t, std::pair<std::uint64_t, RunBatch>> ends;
  double computed = 0, good = 0;  // in tokens

  Overload(unsigned seed, std::uint32_t l) : random(seed), slots(l) {}

  static InferenceConfig config(std::uint32_t slots) {
    InferenceConfig config = Bench::config(slots);
    config.queue_max = 256;
    config.batch_tokens_max = 4'000;
    return config;
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1));
  }
  void take_jobs() {
    for (auto& job : b.probe.started<RunBatch>()) {
      std::int64_t us = 0;
      for (const auto& request : job.second.requests)
        us += static_cast<std::int64_t>(request->plan.segments.at(0).tokens.size()) * us_per_token;
      us = us * between(95, 105) / 100;
      ends.emplace(now + us, std::move(job));
    }
    CHECK(b.core.check_bounds() == "");
  }
  void arrive() {
    const std::int64_t tokens = between(200, 1'000);  // 20 to 100 ms
    const auto id = static_cast<RequestId>(now);
    Execute plan = Bench::plan(id, {segment(static_cast<std::size_t>(tokens))});
    plan.plan.readouts = {{0, 0, {static_cast<Token>(id)}}};
    plan.budget_us = between(150'000, 400'000);
    deadline[id] = now + plan.budget_us;
    b.probe.receive(now, router, plan);
    take_jobs();
    const auto pause = static_cast<std::int64_t>(600 * us_per_token / overload / slots);
    next_arrival = now + between(1, 2 * pause);
  }
  void end_job() {
    const auto job = ends.extract(ends.begin()).mapped();
    for (const auto& request : job.second.requests) {
      const auto tokens = static_cast<double>(request->plan.segments.at(0).tokens.size());
      const auto id = static_cast<RequestId>(request->plan.readouts.at(0).rows.at(0));
      computed += tokens;
      if (now < deadline.at(id)) good += tokens;
    }
    b.run(now, job);
    take_jobs();
  }
  void run(std::int64_t till) {
    while (now < till) {
      const bool ends_first = !ends.empty() && ends.begin()->first <= next_arrival;
      now = ends_first ? ends.begin()->first : next_arrival;
      b.probe.run_until(now);
      take_jobs();
      ends_first ? end_job() : arrive();
    }
  }
};

TEST_CASE("goodput: at ten times the load most computed plans are answered in time, and no slot idles") {
  constexpr std::int64_t till = 30'000'000;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Overload world(seed, 1 + seed % 2);
    world.run(till);
    CAPTURE(world.computed);
    CAPTURE(world.good);
    CHECK(world.good >= 0.85 * world.computed);
    CHECK(world.good * us_per_token >= 0.85 * static_cast<double>(till) * world.slots);
  }
}

TEST_CASE("goodput: a plan that cannot end in time is refused while others run, but tried when it is alone") {
  Bench b;
  b.plain(0, 1, 10);
  b.run(500, b.job());  // 50 us per token
  b.plain(1'000, 2, 30);
  const auto alone = b.job();  // takes 1,500 us of 1,000, by itself
  b.execute(1'000, 3, {segment(8)}, Priority::serving, 1'500);
  b.execute(1'000, 4, {segment(2)}, Priority::serving, 5'000);
  b.run(2'200, alone);  // 40 to 50 us per token: plan 3 has 300 us left
  CHECK(b.probe.sent<Refused>().at(0).id == 3);
  CHECK(b.probe.sent<Refused>().at(0).refusal.kind == RefusalKind::deadline_exceeded);
  CHECK(b.job().second.requests.at(0)->plan.segments.at(0).tokens.size() == 2);
}

TEST_CASE("goodput: no plan joins a batch that would make one of its plans late") {
  Bench b;
  b.plain(0, 1, 4);
  b.run(400, b.job());  // 100 us per token
  b.plain(1'000, 2, 1);
  const auto first = b.job();
  b.execute(1'000, 3, {segment(3)}, Priority::serving, 700);
  // 3 + 4 tokens: plan 3 would be late.
  b.execute(1'000, 4, {segment(4)}, Priority::serving, 5'000);
  b.execute(1'000, 5, {segment(2)}, Priority::serving, 5'000);
  b.run(1'100, first);
  const auto batch = b.job().second;
  REQUIRE(batch.requests.size() == 2);
  CHECK(batch.requests[0]->plan.segments.at(0).tokens.size() == 3);
  CHECK(batch.requests[1]->plan.segments.at(0).tokens.size() == 2);
}

}  // namespace
}  // namespace troupe::actors
