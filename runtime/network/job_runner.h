#pragma once
// Executor threads of one actor's port: `slots` threads take jobs from one bounded queue, first in,
// first out. Blocking work runs here and never on the threads that run cores. An idle thread is
// woken only for a job that no other thread is about to take. Jobs that the port does on threads of its
// own (Port::begin) take no executor.
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
#include "runtime/profiling/cpu_components.h"

namespace troupe {

class JobRunner {
 public:
  // Called once per accepted job, except those that stop() dropped, on the executor's thread. May
  // start jobs. It must be short, since the executor takes its next job afterwards.
  using Finish = std::function<void(std::uint64_t job, JobResult result)>;

  // `finish_begun` is called for jobs that the port does without an executor, on the port's thread;
  // empty: `finish` is called. Throws std::system_error if the system cannot start enough threads.
  JobRunner(Port& port, std::uint32_t slots, std::size_t waiting_max, Finish finish,
            CpuComponent component = CpuComponent::none, Finish finish_begun = {});
  ~JobRunner() { stop(); }
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // Returns false if the queue is full or stop() was called. Thread-safe.
  bool start(std::uint64_t job, Job work);
  // Drops the waiting jobs, waits for the running ones and joins the threads. Must not be called
  // from an executor or a thread of the port.
  void stop();

 private:
  bool begin(std::uint64_t job, Job& work);
  void end_begun();
  void run_slot(std::uint32_t slot) noexcept;
  JobResult run(const Job& job, std::uint32_t slot) const;

  Port& port_;
  const CpuComponent component_;  // component that the jobs' CPU time counts for
  const std::size_t waiting_max_;
  const Finish finish_, finish_begun_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable begun_ended_;  // no begun job runs any more
  std::deque<std::pair<std::uint64_t, Job>> waiting_;
  std::size_t idle_;           // executors without a job: as many waiting jobs start at once
  std::size_t asleep_ = 0;     // idle executors that sleep
  std::size_t finishing_ = 0;  // idle executors that take a waiting job next
  std::size_t begun_ = 0;      // jobs that the port does without an executor
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe
