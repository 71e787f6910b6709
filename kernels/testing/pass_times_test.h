#pragma once
// Test helper: checks the pass times that executors on the CPU report.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "kernels/base/thread_clock.h"
#include "kernels/executor/executor.h"

namespace troupe::kernels {

using PassParts = std::vector<double PassTimes::*>;

inline PassParts all_parts() {
  return {&PassTimes::planning,    &PassTimes::embedding,   &PassTimes::linear,  &PassTimes::attention,
          &PassTimes::elementwise, &PassTimes::keys_values, &PassTimes::readout, &PassTimes::search};
}

// Checks an executor on one core. Exactly the parts in `wanted` take time, none of it is counted
// twice, passes add up, and a pass that is not measured counts nothing.
inline void check_pass_times(Executor& executor, const Request& request, const PassParts& wanted) {
  PassTimes times;
  executor.measure(&times);
  const double begin = thread_cpu_seconds();
  executor.run({&request, 1});
  const double took = thread_cpu_seconds() - begin;
  double sum = 0;
  const PassParts parts = all_parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CAPTURE(i);
    CHECK((times.*parts[i] > 0) == (std::ranges::find(wanted, parts[i]) != wanted.end()));
    CHECK(times.*parts[i] >= 0);
    sum += times.*parts[i];
  }
  CHECK(sum <= took);
  const PassTimes once = times;
  executor.run({&request, 1});
  for (const auto part : wanted) CHECK(times.*part > once.*part);
  executor.measure(nullptr);
  const PassTimes twice = times;
  executor.run({&request, 1});
  for (const auto part : parts) CHECK(times.*part == twice.*part);
}

}  // namespace troupe::kernels
