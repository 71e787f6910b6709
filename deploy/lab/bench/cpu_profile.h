#pragma once
// CPU time of a benchmark's requests by component (runtime/profiling/cpu_components.h), compared with the
// time of the whole process. Time that no component counted is reported as "rest": the actor scheduler, its
// clock, threads that go to sleep and wake up, and background work of the store. Threads that help passes
// are recognised by their name and count as kernels.
#include <string>
#include <vector>

namespace troupe::deploy {

struct CpuShare {
  std::string component;
  double seconds = 0;
};

double process_cpu_seconds();

// Measures from its construction to take(). Only one may exist at a time.
class CpuProfile {
 public:
  CpuProfile();
  // Returns all components, in the order of CpuComponent, and "rest". The sum is the process's CPU time.
  std::vector<CpuShare> take();

 private:
  double process_begin_, helpers_begin_;
};

}  // namespace troupe::deploy
