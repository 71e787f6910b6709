#pragma once
// The CPU time of a benchmark's requests by room (runtime/profiling/cpu_rooms.h), checked against what the
// whole process used: what no room counted (the scheduler of actors, its clock, threads going to sleep and
// being woken, background work of the store) is the rest. Threads that help passes are told by their name;
// theirs is the kernels'.
#include <string>
#include <vector>

namespace troupe::deploy {

struct CpuShare {
  std::string room;
  double seconds = 0;
};

double process_cpu_seconds();

// Between its construction and take(); one at a time.
class CpuProfile {
 public:
  CpuProfile();
  // All rooms, in the order of CpuRoom, and "rest"; they add up to what the process used meanwhile.
  std::vector<CpuShare> take();

 private:
  double process_begin_, helpers_begin_;
};

}  // namespace troupe::deploy
