#include "deploy/lab/bench/cpu_profile.h"

#include <doctest/doctest.h>

#include "runtime/profiling/cpu_components.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

void use_cpu(std::int64_t ns) {
  for (const std::int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;) {
  }
}

TEST_CASE(
    "CPU profile: components and rest sum to the process's time, and scopes count for their component") {
  const double begin = process_cpu_seconds();
  CpuProfile profile;
  {
    const CpuScope kernels(CpuComponent::kernels);
    use_cpu(20'000'000);
  }
  use_cpu(1'000'000);
  const std::vector<CpuShare> shares = profile.take();
  const double used = process_cpu_seconds() - begin;
  double sum = 0, kernels = 0, router = 0;
  for (const CpuShare& share : shares) {
    sum += share.seconds;
    if (share.component == "kernels") kernels = share.seconds;
    if (share.component == "router") router = share.seconds;
  }
  CHECK(kernels >= 0.020);
  CHECK(router == 0);
  CHECK(sum >= 0.020);
  CHECK(sum <= used);
  CHECK(shares.back().component == "rest");
}

}  // namespace
