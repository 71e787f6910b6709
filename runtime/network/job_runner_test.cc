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

}  // namespace
