#include "runtime/profiling/cpu_components.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>

using namespace troupe;

namespace {

thread_local std::int64_t used_ns;
std::int64_t test_clock() { return used_ns; }

std::int64_t of(const CpuTimes& times, CpuComponent component) {
  return times[static_cast<std::size_t>(component)];
}

TEST_CASE("CPU components: a component inside another counts for itself alone") {
  used_ns = 100;
  start_cpu_profile(test_clock);
  {
    const CpuScope host(CpuComponent::host);
    used_ns += 5;
    {
      const CpuScope router(CpuComponent::router);
      used_ns += 70;
      {
        const CpuScope codec(CpuComponent::codec);
        used_ns += 900;
      }
      used_ns += 20;
    }
    used_ns += 3;
  }
  used_ns += 4000;  // outside all components
  const CpuTimes times = stop_cpu_profile();
  CHECK(of(times, CpuComponent::host) == 8);
  CHECK(of(times, CpuComponent::router) == 90);
  CHECK(of(times, CpuComponent::codec) == 900);
  CHECK(of(times, CpuComponent::none) == 0);
}

TEST_CASE("CPU components: each thread counts by its own clock, and each measurement from zero") {
  used_ns = 0;
  start_cpu_profile(test_clock);
  const auto work = [](std::int64_t ns) {
    const CpuScope kernels(CpuComponent::kernels);
    used_ns += ns;
  };
  work(10);
  std::thread(work, 200).join();
  CHECK(of(stop_cpu_profile(), CpuComponent::kernels) == 210);
  start_cpu_profile(test_clock);
  work(1);
  CHECK(of(stop_cpu_profile(), CpuComponent::kernels) == 1);
  work(5);
  CHECK(of(stop_cpu_profile(), CpuComponent::kernels) == 1);
}

TEST_CASE("CPU components: a component entered before the measurement is not counted, those inside it are") {
  used_ns = 0;
  auto host = std::make_unique<CpuScope>(CpuComponent::host);
  used_ns += 1000;
  start_cpu_profile(test_clock);
  {
    const CpuScope router(CpuComponent::router);
    used_ns += 7;
  }
  used_ns += 50;
  host.reset();
  const CpuTimes times = stop_cpu_profile();
  CHECK(of(times, CpuComponent::host) == 0);
  CHECK(of(times, CpuComponent::router) == 7);
}

TEST_CASE("CPU components: every component has a distinct name, and a thread's clock goes forward") {
  std::set<std::string_view> names;
  for (std::size_t component = 0; component < CpuTimes().size(); ++component)
    names.insert(name_of(static_cast<CpuComponent>(component)));
  CHECK(names.size() == CpuTimes().size());
  CHECK_FALSE(names.contains(""));
  const std::int64_t before = thread_cpu_ns();
  CHECK(thread_cpu_ns() >= before);
}

}  // namespace
