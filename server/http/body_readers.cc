// Runs jobs on a few threads.
#include "server/http/body_readers.h"

#include <utility>

#include "runtime/profiling/cpu_components.h"

namespace troupe::server {

BodyReaders::BodyReaders(unsigned threads, std::size_t waiting_max) : waiting_max_(waiting_max) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run_jobs(); });
}

BodyReaders::~BodyReaders() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::optional<BodyReaders::JobId> BodyReaders::run(Job job) {
  JobId id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= waiting_max_) return std::nullopt;
    id = next_id_++;
    waiting_.emplace_hint(waiting_.end(), id, std::move(job));
  }
  changed_.notify_one();
  return id;
}

void BodyReaders::take_back(JobId id) {
  std::map<JobId, Job>::node_type taken;  // freed behind the lock
  const std::lock_guard lock(mutex_);
  taken = waiting_.extract(id);
}

void BodyReaders::run_jobs() {
  const CpuScope scope(CpuComponent::server);
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      job = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
    job();
  }
}

}  // namespace troupe::server
