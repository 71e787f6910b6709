// Thread pool for the blocking work of one actor, such as model computation or reads from disk.
// Its threads (executors) take jobs from a bounded queue, call the actor's port and pass each
// result on. The threads that run actors thus never block.
#include "runtime/network/job_runner.h"

#include "kernels/base/check.h"

namespace troupe {

JobRunner::JobRunner(Port& port, std::uint32_t slots, std::size_t waiting_max, Finish finish,
                     CpuComponent component, Finish finish_begun)
    : port_(port),
      component_(component),
      waiting_max_(waiting_max),
      finish_(std::move(finish)),
      finish_begun_(finish_begun ? std::move(finish_begun) : finish_),
      idle_(slots) {
  TROUPE_CHECK(slots > 0, "a port needs at least one executor");
  try {
    for (std::uint32_t slot = 0; slot < slots; ++slot)
      threads_.emplace_back([this, slot] { run_slot(slot); });
  } catch (...) {  // no more threads can be started; the running ones must not outlive this object
    stop();
    throw;
  }
}

// Returns true if the port does the job without an executor. Such jobs have the same bound as waiting
// ones; those beyond it wait for an executor.
bool JobRunner::begin(std::uint64_t job, Job& work) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_ || begun_ >= waiting_max_) return false;
    ++begun_;
  }
  const auto finish = [this, job](JobResult result) {
    finish_begun_(job, std::move(result));
    end_begun();
  };
  if (port_.begin(work, finish)) return true;
  end_begun();
  return false;
}

// Notifies under the lock: stop() may destroy this object afterwards.
void JobRunner::end_begun() {
  std::lock_guard lock(mutex_);
  if (--begun_ == 0) begun_ended_.notify_all();
}

bool JobRunner::start(std::uint64_t job, Job work) {
  if (begin(job, work)) return true;
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    // Jobs that idle threads take at once do not count as waiting.
    if (stopped_ || waiting_.size() >= waiting_max_ + idle_) return false;
    waiting_.emplace_back(job, std::move(work));
    // Threads in finish_ take a waiting job next; wake another thread only for jobs beyond those.
    wake = asleep_ > 0 && waiting_.size() > finishing_;
  }
  if (wake) changed_.notify_one();
  return true;
}

void JobRunner::stop() {
  std::deque<std::pair<std::uint64_t, Job>> dropped;  // destroyed outside the lock
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(waiting_);
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  std::unique_lock lock(mutex_);
  begun_ended_.wait(lock, [this] { return begun_ == 0; });
}

void JobRunner::run_slot(std::uint32_t slot) noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!stopped_ && waiting_.empty()) {
      ++asleep_;
      changed_.wait(lock);
      --asleep_;
    }
    if (stopped_) return;
    auto [job, work] = std::move(waiting_.front());
    waiting_.pop_front();
    --idle_;
    lock.unlock();
    JobResult result = run(work, slot);
    lock.lock();
    ++idle_;
    ++finishing_;
    lock.unlock();
    finish_(job, std::move(result));
    lock.lock();
    --finishing_;
  }
}

JobResult JobRunner::run(const Job& job, std::uint32_t slot) const {
  const CpuScope scope(component_);
  return port_.run(job, slot);
}

}  // namespace troupe
