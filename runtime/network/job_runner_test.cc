#include "runtime/network/job_runner.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

#include "runtime/testing/host_test.h"

using namespace troupe;

namespace {

// A runner with one executor, whose first job lasts until `release`.
struct HeldSlot {
  std::latch running{1}, release{1};
  FunctionPort port{[this](const Job&, std::uint32_t) -> JobResult {
    if (!running.try_wait()) running.count_down();
    release.wait();
    return ItemList{};
  }};
  std::vector<std::uint64_t> finished;
  JobRunner::Finish finish = [this](std::uint64_t job, JobResult) { finished.push_back(job); };
};

TEST_CASE("job runner: stop() waits for the running job, drops the waiting ones and refuses new ones") {
  HeldSlot held;
  JobRunner runner(held.port, 1, 10'000'000, held.finish);
  CHECK(runner.start(1, ListItems{}));
  held.running.wait();
  std::thread stopper([&] { runner.stop(); });
  while (runner.start(2, ListItems{})) std::this_thread::yield();  // accepted until stop() has begun
  held.release.count_down();
  stopper.join();
  CHECK(held.finished == std::vector<std::uint64_t>{1});
  CHECK_FALSE(runner.start(3, ListItems{}));
}

TEST_CASE("job runner: the bound of waiting jobs does not count jobs for free executors") {
  HeldSlot held;
  {
    JobRunner runner(held.port, 1, 2, held.finish);
    CHECK(runner.start(1, ListItems{}));  // for the executor, whether or not it has taken it yet
    CHECK(runner.start(2, ListItems{}));
    CHECK(runner.start(3, ListItems{}));
    CHECK_FALSE(runner.start(4, ListItems{}));
    held.running.wait();
    CHECK_FALSE(runner.start(5, ListItems{}));
    held.release.count_down();
  }
  CHECK(held.finished.front() == 1);
}

// Begins every second job itself, and keeps how to finish them.
struct BeginningPort final : Port {
  JobResult run(const Job&, std::uint32_t) override { return ItemList{}; }
  bool begin(Job&, const Finish& finish) override {
    if (++asked % 2 == 0) return false;
    begun.push_back(finish);
    return true;
  }
  int asked = 0;
  std::vector<Finish> begun;
};

TEST_CASE("job runner: a job that the port begins takes no executor, and its own function finishes it") {
  BeginningPort port;
  std::vector<std::uint64_t> begun, run;
  {
    JobRunner runner(
        port, 1, 2, [&](std::uint64_t job, JobResult) { run.push_back(job); }, CpuComponent::none,
        [&](std::uint64_t job, JobResult) { begun.push_back(job); });
    CHECK(runner.start(1, ListItems{}));
    CHECK(runner.start(2, ListItems{}));  // not begun: for the executor
    CHECK(runner.start(3, ListItems{}));
    REQUIRE(port.begun.size() == 2);
    CHECK(runner.start(5, ListItems{}));  // two are begun, which is the bound: the port is not asked
    CHECK(port.asked == 3);
    port.begun[1](ItemList{});
    port.begun[0](ItemList{});
  }
  CHECK(begun == std::vector<std::uint64_t>{3, 1});
  for (const std::uint64_t job : run) CHECK((job == 2 || job == 5));
}

TEST_CASE("job runner: stop() waits for jobs that the port has begun, and begins no more") {
  BeginningPort port;
  std::vector<std::uint64_t> begun;
  const auto ignore = [](std::uint64_t, JobResult) {};
  JobRunner runner(port, 1, 10'000'000, ignore, CpuComponent::none,
                   [&](std::uint64_t job, JobResult) { begun.push_back(job); });
  CHECK(runner.start(1, ListItems{}));
  std::latch stopped(1);
  std::thread stopper([&] {
    runner.stop();
    stopped.count_down();
  });
  for (port.asked = 1; runner.start(2, ListItems{}); port.asked = 1)
    std::this_thread::yield();  // begins none
  const int asked = port.asked;
  CHECK_FALSE(stopped.try_wait());
  CHECK_FALSE(runner.start(3, ListItems{}));
  CHECK(port.asked == asked);
  port.begun[0](ItemList{});
  stopper.join();
  CHECK(begun == std::vector<std::uint64_t>{1});
}

}  // namespace
