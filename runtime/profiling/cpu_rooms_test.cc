#include "runtime/profiling/cpu_rooms.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>

using namespace troupe;

namespace {

thread_local std::int64_t used_ns;
std::int64_t test_clock() { return used_ns; }

std::int64_t of(const CpuTimes& times, CpuRoom room) { return times[static_cast<std::size_t>(room)]; }

TEST_CASE("CPU components: a component inside another counts for itself alone") {
  used_ns = 100;
  start_cpu_meter(test_clock);
  {
    const CpuScope host(CpuRoom::host);
    used_ns += 5;
    {
      const CpuScope router(CpuRoom::router);
      used_ns += 70;
      {
        const CpuScope codec(CpuRoom::codec);
        used_ns += 900;
      }
      used_ns += 20;
    }
    used_ns += 3;
  }
  used_ns += 4000;  // outside all components
  const CpuTimes times = stop_cpu_meter();
  CHECK(of(times, CpuRoom::host) == 8);
  CHECK(of(times, CpuRoom::router) == 90);
  CHECK(of(times, CpuRoom::codec) == 900);
  CHECK(of(times, CpuRoom::none) == 0);
}

TEST_CASE("CPU components: each thread counts by its own clock, and each measurement from zero") {
  used_ns = 0;
  start_cpu_meter(test_clock);
  const auto work = [](std::int64_t ns) {
    const CpuScope kernels(CpuRoom::kernels);
    used_ns += ns;
  };
  work(10);
  std::thread(work, 200).join();
  CHECK(of(stop_cpu_meter(), CpuRoom::kernels) == 210);
  start_cpu_meter(test_clock);
  work(1);
  CHECK(of(stop_cpu_meter(), CpuRoom::kernels) == 1);
  work(5);
  CHECK(of(stop_cpu_meter(), CpuRoom::kernels) == 1);
}

TEST_CASE("CPU components: a component entered before the measurement is not counted, those inside it are") {
  used_ns = 0;
  auto host = std::make_unique<CpuScope>(CpuRoom::host);
  used_ns += 1000;
  start_cpu_meter(test_clock);
  {
    const CpuScope router(CpuRoom::router);
    used_ns += 7;
  }
  used_ns += 50;
  host.reset();
  const CpuTimes times = stop_cpu_meter();
  CHECK(of(times, CpuRoom::host) == 0);
  CHECK(of(times, CpuRoom::router) == 7);
}

TEST_CASE("CPU components: every component has a distinct name, and a thread's clock goes forward") {
  std::set<std::string_view> names;
  for (std::size_t room = 0; room < CpuTimes().size(); ++room)
    names.insert(name_of(static_cast<CpuRoom>(room)));
  CHECK(names.size() == CpuTimes().size());
  CHECK_FALSE(names.contains(""));
  const std::int64_t before = thread_cpu_ns();
  CHECK(thread_cpu_ns() >= before);
}

}  // namespace
