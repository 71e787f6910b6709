#pragma once
// The executors of one actor's port: `lanes` threads that take jobs from one bounded queue, first in, first
// out. Blocking work runs here and never on the threads that run cores. A sleeping lane is woken only for a
// job that no other lane is about to take.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/profiling/cpu_rooms.h"

namespace troupe {

class JobRunner {
 public:
  // Called once per accepted job that was not dropped by stop(), on the lane's thread. May start jobs. The
  // lane looks for its next job afterwards, so it is short.
  using Finish = std::function<void(std::uint64_t job, JobResult result)>;

  // Throws std::system_error if the system has too few threads to give.
  JobRunner(Port& port, std::uint32_t lanes, std::size_t waiting_max, Finish finish,
            CpuRoom room = CpuRoom::none);
  ~JobRunner() { stop(); }
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // False: the queue is full, or stop() was called. Thread-safe.
  bool start(std::uint64_t job, Job work);
  // Drops the waiting jobs, lets the running ones finish, joins. Not from a lane.
  void stop();

 private:
  void run_lane(std::uint32_t lane) noexcept;
  JobResult run(const Job& job, std::uint32_t lane) const;

  Port& port_;
  const CpuRoom room_;  // of its jobs
  const std::size_t waiting_max_;
  const Finish finish_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::uint64_t, Job>> waiting_;
  std::size_t idle_;           // lanes without a job: that many of the waiting ones start at once
  std::size_t asleep_ = 0;     // of the idle ones
  std::size_t finishing_ = 0;  // of the idle ones: they take a waiting job next
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe
