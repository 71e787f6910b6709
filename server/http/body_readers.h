#pragma once
// Threads that read large bodies, so that the server's one thread is free for other connections meanwhile.
// Jobs run in the order in which they came. Their number is bounded.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace troupe::server {

class BodyReaders {
 public:
  using Job = std::function<void()>;  // must not throw

  BodyReaders(unsigned threads, std::size_t waiting_max);
  ~BodyReaders();  // runs the jobs that wait, and joins the threads
  BodyReaders(const BodyReaders&) = delete;
  BodyReaders& operator=(const BodyReaders&) = delete;

  // Returns false if too many jobs wait; the job is not run then. Callable from any thread.
  bool run(Job job);

 private:
  void run_jobs();

  const std::size_t waiting_max_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe::server
