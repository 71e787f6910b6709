#pragma once
// Threads that read large bodies, so that the server's one thread is free for other connections meanwhile.
// Jobs run in the order in which they came. Their number is bounded, and one that waits can be taken back.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace troupe::server {

class BodyReaders {
 public:
  using Job = std::function<void()>;  // must not throw
  using JobId = std::uint64_t;

  BodyReaders(unsigned threads, std::size_t waiting_max);
  ~BodyReaders();  // runs the jobs that wait, and joins the threads
  BodyReaders(const BodyReaders&) = delete;
  BodyReaders& operator=(const BodyReaders&) = delete;

  // Returns nullopt if too many jobs wait; the job is not run then. Callable from any thread.
  std::optional<JobId> run(Job job);
  // Forgets a job that has not begun, with all that it holds. Callable from any thread.
  void take_back(JobId id);

 private:
  void run_jobs();

  const std::size_t waiting_max_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<JobId, Job> waiting_;
  JobId next_id_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe::server
