#pragma once
// The processors of one simulated node, shared by the steps of its cores and by jobs that compute. Steps are
// short and go first: one that finds all processors at work takes its time from a job, as a thread that wakes
// takes a processor from one that has computed for long. Jobs share what is left alike, and a job alone may
// have others' idle processors help with a part of it. It knows no clock: the caller says what time it is,
// which never goes back.
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe {

class SimProcessors {
 public:
  using Job = std::uint64_t;

  explicit SimProcessors(std::uint32_t count);  // at least 1

  // A step that is ready now and takes so long: when it has ended. It waits only for other steps.
  Instant step(Instant now, Duration takes);

  // A job that takes so long on one processor, of which idle ones could do `shared` (0..1) beside it.
  Job begin(Instant now, Duration takes, double shared);
  // When it ends if nothing changes meanwhile; a step may make it later, and the end of another job sooner.
  Instant end_of(Job job) const;
  // Whether it has; then it is forgotten.
  bool end(Instant now, Job job);
  std::size_t jobs() const { return jobs_.size(); }

 private:
  struct Running {
    double left_us = 0;  // on one processor of its own
    double shared = 0;
    double lost_us = 0;  // to steps
  };
  double speed(const Running& job) const;
  void advance(Instant now);
  void take_from_a_job(Duration takes);

  std::vector<Instant> steps_until_;  // of each processor
  std::map<Job, Running> jobs_;
  Job last_ = 0;
  Instant now_;
};

}  // namespace troupe
