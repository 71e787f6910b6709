#pragma once
// Processors of one simulated node, shared by the steps of its cores and by jobs that compute. Steps are
// short and run first: if all processors are busy, a step takes its time from a job, as a waking thread
// preempts a long-running one. Jobs share the remaining time equally, and idle processors may help with the
// parallel fraction of a job. Callers pass the current time, which never decreases.
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe {

class SimProcessors {
 public:
  using Job = std::uint64_t;

  explicit SimProcessors(std::uint32_t count);  // at least 1

  // Runs a step that is ready at `now` and takes `takes`. Returns when it ends. A step waits only for other
  // steps.
  Instant step(Instant now, Duration takes);

  // Starts a job that takes `takes` on one processor; idle processors can share the fraction `shared`
  // (0..1) of it.
  Job begin(Instant now, Duration takes, double shared);
  // Returns when the job ends if nothing changes. A later step may delay it; the end of another job may
  // make it earlier.
  Instant end_of(Job job) const;
  // Returns true and forgets the job if it has ended.
  bool end(Instant now, Job job);
  std::size_t jobs() const { return jobs_.size(); }

 private:
  struct Running {
    double left_us = 0;  // work left, in time on one dedicated processor
    double shared = 0;
    double lost_us = 0;  // time lost to steps
  };
  double speed(const Running& job) const;
  void advance(Instant now);
  void take_from_a_job(Duration takes);

  std::vector<Instant> steps_until_;  // end of the last step, per processor
  std::map<Job, Running> jobs_;
  Job last_ = 0;
  Instant now_;
};

}  // namespace troupe
