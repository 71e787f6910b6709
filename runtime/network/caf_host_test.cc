#include "runtime/network/caf_host.h"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/testing/host_test.h"

using namespace troupe;

namespace {

constexpr Address server{1, Role::server}, router{1, Role::router}, worker{1, Role::inference_worker};

// Starts one job for each number that it receives, and reports to the server that the job ended, or
// was refused (id 0).
FunctionCore::Step starter() {
  return [](Instant, const Event& event, Effects& effects) {
    if (auto* received = std::get_if<Received>(&event))
      effects.start(std::get<StatusRequest>(received->message).id, ListItems{});
    if (auto* done = std::get_if<JobDone>(&event))
      effects.send(server, StatusRequest{std::holds_alternative<Refusal>(done->result) ? 0 : done->job});
  };
}

TEST_CASE("CAF host: a port runs on all its executors at once, one job at a time on each") {
  constexpr std::uint32_t slots = 3, jobs = 24;
  std::latch all_slots_busy(slots);  // the first job of each executor waits for the others
  std::atomic<int> running{0}, most{0}, clashes{0};
  std::vector<std::atomic<int>> on_slot(slots), started(slots);
  FunctionPort port([&](const Job&, std::uint32_t slot) -> JobResult {
    if (on_slot.at(slot)++ != 0) ++clashes;
    const int now_running = ++running;
    for (int seen = most; seen < now_running && !most.compare_exchange_weak(seen, now_running);) {
    }
    if (started.at(slot)++ == 0) all_slots_busy.arrive_and_wait();
    --running;
    --on_slot.at(slot);
    return ItemList{};
  });
  MetricRegistry metrics;
  Inbox inbox;
  CafHost host(metrics, nullptr, 2);
  host.add({worker, core_of(starter()), &port, slots});
  host.set_server(server, inbox.server());
  host.start();
  for (std::uint64_t job = 1; job <= jobs; ++job) host.post(worker, server, StatusRequest{job});
  std::set<std::uint64_t> ended;
  for (auto& received : inbox.await(jobs)) ended.insert(std::get<StatusRequest>(received.message).id);
  host.stop();
  CHECK(ended.size() == jobs);
  CHECK(*ended.begin() == 1);
  CHECK(most == static_cast<int>(slots));
  CHECK(clashes == 0);
}

TEST_CASE("CAF host: a job beyond the bound of waiting jobs is refused while the others run") {
  std::latch refused(1);
  FunctionPort port([&](const Job&, std::uint32_t) -> JobResult {
    refused.wait();
    return ItemList{};
  });
  MetricRegistry metrics;
  Inbox inbox;
  CafHost host(metrics, nullptr, 2);
  host.add({worker, core_of(starter()), &port, 1, 2});
  host.set_server(server, inbox.server());
  host.start();
  for (std::uint64_t job = 1; job <= 4; ++job) host.post(worker, server, StatusRequest{job});
  auto messages = inbox.await(1);
  refused.count_down();
  REQUIRE(messages.size() == 1);
  messages = inbox.await(4);
  std::vector<std::uint64_t> ids;
  for (auto& received : messages) ids.push_back(std::get<StatusRequest>(received.message).id);
  CHECK(ids == std::vector<std::uint64_t>{0, 1, 2, 3});
}

TEST_CASE("CAF host: stop() waits for a running job, and nothing is called afterwards") {
  std::latch running(1), stopping(1);
  std::atomic<int> runs{0};
  FunctionPort port([&](const Job&, std::uint32_t) -> JobResult {
    if (runs++ == 0) running.count_down();
    stopping.wait();
    return ItemList{};
  });
  MetricRegistry metrics;
  Inbox inbox;
  CafHost host(metrics, nullptr, 2);
  host.add({worker, core_of(starter()), &port});
  host.set_server(server, inbox.server());
  host.start();
  for (std::uint64_t job = 1; job <= 5; ++job) host.post(worker, server, StatusRequest{job});
  running.wait();
  std::thread stopper([&] { host.stop(); });
  stopping.count_down();
  stopper.join();
  const int runs_at_stop = runs;
  host.post(worker, server, StatusRequest{6});
  CHECK(runs == runs_at_stop);
}

TEST_CASE("CAF host: a host with distant timers and full mailboxes stops") {
  MetricRegistry metrics;
  CafHost host(metrics, nullptr, 2);
  for (Address at : {router, worker})
    host.add({at, core_of([at](Instant now, const Event&, Effects& effects) {
                effects.set_timer(1, now + Duration{3'600'000'000});
                effects.send(at == router ? worker : router, StatusRequest{1});  // endlessly
              })});
  host.start();
  for (int i = 0; i < 1000; ++i) host.post(router, server, StatusRequest{1});
  host.stop();
  CHECK(metrics.value(Metric::protocol_errors) == 0);
}

TEST_CASE("CAF host: the start timer fires before messages of cores that started earlier") {
  constexpr NodeId nodes = 50;
  for (int round = 0; round < 50; ++round) {
    MetricRegistry metrics;
    Inbox inbox;
    CafHost host(metrics, nullptr, 2);
    // The core of node 1 starts first, and sends to the last core first.
    host.add({router, core_of([](Instant, const Event&, Effects& effects) {
                for (NodeId node = nodes; node > 1; --node)
                  effects.send({node, Role::router}, StatusRequest{});
              })});
    for (NodeId node = 2; node <= nodes; ++node) host.add({{node, Role::router}, start_witness(server)});
    host.set_server(server, inbox.server());
    host.start();
    for (auto& received : inbox.await(nodes - 1)) REQUIRE(std::get<StatusRequest>(received.message).id == 1);
  }
}

TEST_CASE("CAF host: messages of 20 KB from one sender to one receiver keep their order") {
  constexpr std::uint64_t count = 1000;
  MetricRegistry metrics;
  Inbox inbox;
  CafHost host(metrics, nullptr, 2);
  host.add({router, core_of([](Instant, const Event& event, Effects& effects) {
              if (auto* received = std::get_if<Received>(&event)) effects.send(worker, received->message);
            })});
  host.add({worker, core_of([](Instant, const Event& event, Effects& effects) {
              auto* received = std::get_if<Received>(&event);
              if (received) effects.send(server, StatusRequest{std::get<ScoreRequest>(received->message).id});
            })});
  host.set_server(server, inbox.server());
  host.start();
  for (std::uint64_t id = 0; id < count; ++id)
    host.post(router, server, ScoreRequest{.id = id, .query = std::vector<Token>(5000, 1 << 20)});
  auto messages = inbox.await(count);
  REQUIRE(messages.size() == count);
  for (std::uint64_t id = 0; id < count; ++id) CHECK(std::get<StatusRequest>(messages[id].message).id == id);
}

TEST_CASE("CAF host: posts from several threads may race with stop()") {
  for (int round = 0; round < 20; ++round) {
    MetricRegistry metrics;
    std::atomic<int> arrived{0};
    CafHost host(metrics, nullptr, 2);
    host.set_server(server, [&](Address, Message) {
      if (++arrived % 2) host.post(server, router, StatusRequest{2});  // a server may post
    });
    host.start();
    std::latch posting(3);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 2; ++thread)
      threads.emplace_back([&] {
        posting.arrive_and_wait();
        for (int i = 0; i < 200; ++i) host.post(server, router, StatusRequest{1});
      });
    posting.arrive_and_wait();
    host.stop();
    const int arrived_at_stop = arrived;
    for (auto& thread : threads) thread.join();
    CHECK(arrived == arrived_at_stop);
  }
}

TEST_CASE("CAF host: counts and log lines of a core reach the registry and the log with the actor's name") {
  std::vector<std::string> lines;
  std::mutex mutex;
  MetricRegistry metrics;
  Inbox inbox;
  auto sink = [&](LogLevel, std::string_view actor, std::string_view event,
                  std::span<const LogField> fields) {
    std::lock_guard lock(mutex);
    lines.push_back(std::string(actor) + " " + std::string(event) + " " + fields[0].name + "=" +
                    fields[0].value);
  };
  CafHost host(metrics, sink);
  host.add({router, core_of([](Instant, const Event&, Effects& effects) {
              effects.count(Metric::tokens_total, 3);
              effects.log(LogLevel::info, "hello", {{"to", "all"}});
              effects.send(server, StatusRequest{1});
            })});
  host.set_server(server, inbox.server());
  host.start();
  CHECK(inbox.await(1).size() == 1);
  host.stop();
  CHECK(metrics.value(Metric::tokens_total) == 3);
  CHECK(lines == std::vector<std::string>{"router@1 hello to=all"});
}

// Returns what arrives when a core sends `kind` as a block's kind; 0 = nothing arrives.
std::vector<Received> sent_with_unknown_kind(CafHost::Inside inside, MetricRegistry& metrics) {
  Inbox inbox;
  CafHost host(metrics, nullptr, 2, inside);
  host.add({router, core_of([](Instant, const Event& event, Effects& effects) {
              if (!std::holds_alternative<Received>(event)) return;
              AcquireBlocks acquire;
              acquire.wants.emplace_back().kind = static_cast<SegmentKind>(99);
              effects.send(server, std::move(acquire));
              effects.send(server, StatusRequest{1});
            })});
  host.set_server(server, inbox.server());
  host.start();
  host.post(router, server, StatusRequest{1});
  return inbox.await(inside == CafHost::Inside::structs ? 2 : 1);
}

TEST_CASE(
    "CAF host: inside a process a message arrives as the sent struct, or, as bytes, only if it is valid") {
  MetricRegistry metrics;
  const auto structs = sent_with_unknown_kind(CafHost::Inside::structs, metrics);
  REQUIRE(structs.size() == 2);
  CHECK(std::get<AcquireBlocks>(structs[0].message).wants.at(0).kind == static_cast<SegmentKind>(99));
  CHECK(metrics.value(Metric::protocol_errors) == 0);
  const auto bytes = sent_with_unknown_kind(CafHost::Inside::bytes, metrics);
  REQUIRE(bytes.size() == 1);
  CHECK(std::holds_alternative<StatusRequest>(bytes[0].message));
  CHECK(metrics.value(Metric::protocol_errors) == 1);
}

TEST_CASE("CAF host: a job done by run_now takes no executor, and its result is a separate event") {
  struct QuickPort final : Port {
    JobResult run(const Job&, std::uint32_t) override { return Refusal{}; }
    std::optional<JobResult> run_now(const Job& job) override {
      if (std::get<ListItems>(job).count > 2) return std::nullopt;
      return ItemList{};
    }
  } port;
  MetricRegistry metrics;
  Inbox inbox;
  CafHost host(metrics, nullptr, 2);
  host.add({worker, core_of([inside = false](Instant, const Event& event, Effects& effects) mutable {
              REQUIRE_FALSE(inside);
              inside = true;
              if (auto* received = std::get_if<Received>(&event))
                for (std::uint32_t count = 1; count <= 3; ++count)
                  effects.start(std::get<StatusRequest>(received->message).id + count, ListItems{0, count});
              if (auto* done = std::get_if<JobDone>(&event))
                effects.send(server,
                             StatusRequest{std::holds_alternative<Refusal>(done->result) ? 0 : done->job});
              inside = false;
            }),
            &port});
  host.set_server(server, inbox.server());
  host.start();
  host.post(worker, server, StatusRequest{10});
  std::vector<std::uint64_t> ids;
  for (auto& received : inbox.await(3)) ids.push_back(std::get<StatusRequest>(received.message).id);
  CHECK(ids == std::vector<std::uint64_t>{11, 12, 0});
}

TEST_CASE("CAF host: a host that was never started is destroyed without calling its cores") {
  int steps = 0;
  MetricRegistry metrics;
  {
    CafHost host(metrics, nullptr);
    host.add({router, core_of([&](Instant, const Event&, Effects&) { ++steps; })});
  }
  CHECK(steps == 0);
}

}  // namespace
