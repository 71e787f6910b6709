#include "sim/host/sim_host.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/testing/host_test.h"

using namespace troupe;

namespace sim_host_test {

constexpr Address server{1, Role::server}, router{1, Role::router}, worker{2, Role::inference_worker};

struct Run {
  std::uint64_t digest;
  std::vector<std::uint64_t> order;  // of the ids at the client handler
  bool operator==(const Run&) const = default;
};

// Four cores in a ring that forward every message once, with one timer each, and send it to the client.
Run run_ring(std::uint64_t seed) {
  MetricRegistry metrics;
  Run run;
  SimHost host(metrics, nullptr, {.seed = seed});
  for (NodeId node = 1; node <= 4; ++node)
    host.add({{node, Role::router}, core_of([node](Instant now, const Event& event, Effects& effects) {
                const Address next = node == 4 ? server : Address{node + 1, Role::router};
                if (auto* received = std::get_if<Received>(&event)) effects.send(next, received->message);
                effects.set_timer(node, now + Duration{node == 4 ? 10'000'000 : 1000});
              })});
  host.set_server(
      server, [&](Address, Message message) { run.order.push_back(std::get<StatusRequest>(message).id); });
  host.start();
  for (std::uint64_t id = 0; id < 20; ++id) host.post(router, server, StatusRequest{id});
  host.run_until({100'000});
  run.digest = host.digest();
  return run;
}

TEST_CASE("sim host: a seed replays exactly, and another seed gives another order") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const Run run = run_ring(seed);
    CHECK(run.order.size() == 20);
    CHECK(run == run_ring(seed));
    const Run other = run_ring(seed + 1000);
    CHECK(run.digest != other.digest);
    CHECK(run.order != other.order);
  }
}

TEST_CASE("sim host: with in_order, events of the same microsecond keep their causal order") {
  MetricRegistry metrics;
  std::vector<std::uint64_t> seen;
  SimHost host(metrics, nullptr, {.latency_min = {0}, .latency_max = {0}, .in_order = true});
  host.set_server(server,
                  [&](Address, Message message) { seen.push_back(std::get<StatusRequest>(message).id); });
  host.start();
  for (std::uint64_t id = 0; id < 10; ++id) host.post(server, router, StatusRequest{id});
  host.run_until({1'000});
  CHECK(std::ranges::is_sorted(seen));
}

TEST_CASE("sim host: a step that takes time delays its messages and its core's next events, in order") {
  MetricRegistry metrics;
  std::vector<std::pair<std::uint64_t, std::int64_t>> seen;
  SimOptions options{
      .latency_min = {0}, .latency_max = {0}, .local_min = {0}, .local_max = {0}, .in_order = true};
  options.processors = 1;
  options.step_takes = [](const Address& who, const Event& event) {
    return Duration{who.role == Role::router && std::holds_alternative<Received>(event) ? 100 : 0};
  };
  SimHost host(metrics, nullptr, options);
  host.add({router, core_of([](Instant, const Event& event, Effects& effects) {
              if (auto* received = std::get_if<Received>(&event)) effects.send(server, received->message);
            })});
  host.set_server(server, [&](Address, Message message) {
    seen.emplace_back(std::get<StatusRequest>(message).id, host.now().us);
  });
  host.start();
  for (std::uint64_t id = 1; id <= 3; ++id) host.post(router, server, StatusRequest{id});
  host.run_until({1'000});
  CHECK(seen == std::vector<std::pair<std::uint64_t, std::int64_t>>{{1, 100}, {2, 200}, {3, 300}});
}

struct ComputingPort final : SimPort {
  std::optional<Duration> begin(Instant, const Job&, std::uint32_t) override { return Duration{1'000}; }
  std::optional<double> computes(const Job&, std::uint32_t) const override { return 0.0; }
  JobResult run(const Job&, std::uint32_t) override { return BlockEraseResult{}; }
};

TEST_CASE("sim host: computing jobs share their node's processors, and steps run first") {
  const auto ends = [](std::uint32_t processors, bool steps) {
    MetricRegistry metrics;
    std::vector<std::int64_t> at;
    SimOptions options{.latency_min = {0}, .latency_max = {0}, .in_order = true};
    options.processors = processors;
    options.step_takes = [](const Address& who, const Event&) {
      return Duration{who.role == Role::cache_meta ? 50 : 0};
    };
    SimHost host(metrics, nullptr, options);
    ComputingPort port;
    host.add({router, core_of([&](Instant, const Event& event, Effects& effects) {
                if (std::holds_alternative<Received>(event))
                  for (std::uint64_t job = 1; job <= 2; ++job) effects.start(job, EraseBlocks{});
                if (std::holds_alternative<JobDone>(event)) at.push_back(host.now().us);
              }),
              &port, 2});
    host.add({{1, Role::cache_meta}, core_of([](Instant, const Event&, Effects&) {})});
    host.start();
    host.run_until({1'000});
    host.post(router, server, StatusRequest{1});
    host.run_until({1'500});
    if (steps)
      for (std::uint64_t id = 2; id < 4; ++id) host.post({1, Role::cache_meta}, server, StatusRequest{id});
    host.run_until({10'000});
    host.stop();
    for (std::int64_t& end : at) end -= 1'000;
    return at;
  };
  CHECK(ends(2, false) == std::vector<std::int64_t>{1'000, 1'000});
  CHECK(ends(1, false) == std::vector<std::int64_t>{2'000, 2'000});
  CHECK(ends(2, true) == std::vector<std::int64_t>{1'050, 1'050});
  CHECK(ends(1, true).back() == 2'100);
}

// Waits for 300 µs twice (and longer after the first job, as asked), then computes for 1,000 µs.
struct WaitingPort final : SimPort {
  int parts = 0;
  std::vector<std::int64_t> asked_at;
  std::optional<Duration> begin(Instant, const Job&, std::uint32_t) override { return Duration{300}; }
  std::optional<Duration> goes_on(Instant now, const Job&, std::uint32_t) override {
    asked_at.push_back(now.us);
    return ++parts == 1 ? std::optional(Duration{300})
           : parts == 2 ? std::optional(Duration{1'000})
                        : std::nullopt;
  }
  std::optional<double> computes(const Job&, std::uint32_t) const override {
    return parts < 2 ? std::nullopt : std::optional(0.0);
  }
  JobResult run(const Job&, std::uint32_t) override { return BlockEraseResult{}; }
};

TEST_CASE("sim host: a job lasts as long as its port returns and uses a processor only while it computes") {
  MetricRegistry metrics;
  SimOptions options{.latency_min = {0}, .latency_max = {0}, .in_order = true};
  options.processors = 1;
  SimHost host(metrics, nullptr, options);
  WaitingPort waits;
  ComputingPort computes;
  std::map<NodeId, std::int64_t> ended;
  const auto one_job = [&](Role role, SimPort& port) {
    host.add({{1, role},
              core_of([&host, &ended, role](Instant, const Event& event, Effects& effects) {
                if (std::holds_alternative<TimerFired>(event)) effects.start(1, EraseBlocks{});
                if (std::holds_alternative<JobDone>(event)) ended[static_cast<NodeId>(role)] = host.now().us;
              }),
              &port,
              1});
  };
  one_job(Role::router, waits);
  one_job(Role::cache_meta, computes);
  host.start();
  host.run_until({10'000});
  host.stop();
  CHECK(waits.asked_at == std::vector<std::int64_t>{300, 600, 2'000});
  CHECK(ended[static_cast<NodeId>(Role::cache_meta)] == 1'400);  // alone on the processor until 600
  CHECK(ended[static_cast<NodeId>(Role::router)] == 2'000);
}

TEST_CASE("sim host: events of the same microsecond come in an order drawn from the seed") {
  auto order = [](std::uint64_t seed) {
    MetricRegistry metrics;
    std::vector<std::uint64_t> seen;
    SimHost host(metrics, nullptr, {.seed = seed, .latency_min = {0}, .latency_max = {0}});
    host.set_server(server,
                    [&](Address, Message message) { seen.push_back(std::get<StatusRequest>(message).id); });
    host.start();
    for (std::uint64_t id = 0; id < 10; ++id) host.post(server, router, StatusRequest{id});
    CHECK(host.run_until({0}) == 10);
    return seen;
  };
  CHECK(order(1) == order(1));
  CHECK(order(1) != order(2));
}

TEST_CASE("sim host: start timers come before other cores' messages, even without latency") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    MetricRegistry metrics;
    std::vector<std::uint64_t> seen;
    SimHost host(metrics, nullptr, {.seed = seed, .latency_min = {0}, .latency_max = {0}});
    host.add({router, core_of([](Instant, const Event&, Effects& effects) {
                effects.send(worker, StatusRequest{});
              })});
    host.add({worker, start_witness(server)});
    host.set_server(server,
                    [&](Address, Message message) { seen.push_back(std::get<StatusRequest>(message).id); });
    host.start();
    host.run_until({1'000'000});
    CHECK(seen == std::vector<std::uint64_t>{1});
  }
}

TEST_CASE("sim host: the digest covers the bytes of a message, not only its time") {
  auto digest = [](std::uint64_t id) {
    MetricRegistry metrics;
    SimHost host(metrics, nullptr, {});
    host.set_server(server, [](Address, Message) {});
    host.start();
    host.post(server, router, StatusRequest{id});
    host.run_until({1'000});
    return host.digest();
  };
  CHECK(digest(1) == digest(1));
  CHECK(digest(1) != digest(2));
}

TEST_CASE("sim host: latency of posted messages stays in its range and reaches both ends") {
  MetricRegistry metrics;
  SimHost host(metrics, nullptr, {.latency_min = {3}, .latency_max = {5}});
  std::vector<int> at(10);
  host.set_server(server, [&](Address, Message) { ++at.at(static_cast<std::size_t>(host.now().us)); });
  host.start();
  for (int i = 0; i < 300; ++i) host.post(server, router, StatusRequest{1});
  host.run_until({9});
  CHECK(at[3] + at[4] + at[5] == 300);
  CHECK(at[3] > 0);
  CHECK(at[5] > 0);
}

TEST_CASE("sim host: latency between nodes stays in its range and reaches both ends") {
  MetricRegistry metrics;
  SimHost host(metrics, nullptr, {.latency_min = {3}, .latency_max = {5}});
  std::vector<int> took(10);
  Instant sent;
  host.add({router, core_of([&](Instant now, const Event& event, Effects& effects) {
              if (!std::get_if<TimerFired>(&event)) return;
              sent = now;
              effects.send(worker, StatusRequest{1});
              // A card sends one message at a time.
              effects.set_timer(1, now + Duration{100});
            })});
  host.add({worker, core_of([&](Instant now, const Event& event, Effects&) {
              if (std::get_if<Received>(&event)) ++took.at(static_cast<std::size_t>((now - sent).us));
            })});
  host.start();
  host.run_until({30'000});
  CHECK(took[3] + took[4] + took[5] > 290);
  CHECK(took[3] > 0);
  CHECK(took[5] > 0);
}

TEST_CASE("sim host: jobs take their cost, run one per executor slot, and start in order") {
  struct Ended {
    std::int64_t at;
    std::uint64_t job;
    bool operator==(const Ended&) const = default;
  };
  std::vector<Ended> ended;
  std::vector<std::uint32_t> slots;
  FunctionPort port([&](const Job& job, std::uint32_t slot) -> JobResult {
    slots.push_back(slot);
    return ItemList{.items = std::vector<ItemNumber>(std::get<ListItems>(job).count)};
  });
  MetricRegistry metrics;
  auto cost = [](const Address& address, const Job&, const JobResult& result) {
    CHECK(address == worker);
    return Duration{static_cast<std::int64_t>(std::get<ItemList>(result).items.size())};
  };
  SimHost host(metrics, nullptr, {.job_cost = cost});
  host.add({worker, core_of([&](Instant now, const Event& event, Effects& effects) {
              if (auto* done = std::get_if<JobDone>(&event)) return ended.push_back({now.us, done->job});
              effects.start(1, ListItems{0, 10});
              effects.start(2, ListItems{0, 25});
              effects.start(3, ListItems{0, 30});  // slot 0 after job 1
              effects.start(4, ListItems{0, 5});   // slot 1 after job 2
            }),
            &port, 2});
  host.start();
  host.run_until({1000});
  CHECK(ended == std::vector<Ended>{{10, 1}, {25, 2}, {30, 4}, {40, 3}});
  CHECK(slots == std::vector<std::uint32_t>{0, 1, 0, 1});
}

TEST_CASE("sim host: a job beyond the bound of waiting jobs is refused immediately") {
  std::vector<std::uint64_t> refused;
  FunctionPort port([](const Job&, std::uint32_t) -> JobResult { return ItemList{}; });
  MetricRegistry metrics;
  SimHost host(metrics, nullptr, {});
  host.add({worker, core_of([&](Instant now, const Event& event, Effects& effects) {
              auto* done = std::get_if<JobDone>(&event);
              if (!done) {
                for (std::uint64_t job = 1; job <= 4; ++job) effects.start(job, ListItems{});
              } else if (std::holds_alternative<Refusal>(done->result)) {
                refused.push_back(done->job);
                CHECK(now == Instant{0});
              }
            }),
            &port, 1, 2});
  host.start();
  CHECK(host.run_until({1'000'000}) == 5);
  CHECK(refused == std::vector<std::uint64_t>{4});
}

TEST_CASE("sim host: run_until delivers events due by its end, keeps the others and sets the time") {
  std::vector<std::int64_t> fired;
  MetricRegistry metrics;
  SimHost host(metrics, nullptr, {});
  host.add({router, core_of([&](Instant now, const Event&, Effects& effects) {
              fired.push_back(now.us);
              effects.set_timer(1, now + Duration{100});
            })});
  host.start();
  CHECK(host.run_until({200}) == 3);
  CHECK(host.run_until({250}) == 0);
  CHECK(host.now() == Instant{250});
  CHECK(host.run_until({300}) == 1);
  CHECK(fired == std::vector<std::int64_t>{0, 100, 200, 300});
}

}  // namespace sim_host_test
