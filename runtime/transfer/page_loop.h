#pragma once
// One thread that waits for sockets and runs commands of other threads. It sleeps until one of them
// wakes it; it does not poll. SIGPIPE is blocked on it, since TLS writes without a flag against it.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace troupe {

// Commands for the thread. May outlive it; commands posted after its end are not run.
class PageCommands {
 public:
  PageCommands();  // throws std::runtime_error
  ~PageCommands();
  PageCommands(const PageCommands&) = delete;
  PageCommands& operator=(const PageCommands&) = delete;
  void post(std::function<void()> command);  // thread-safe

 private:
  friend class PageLoop;
  void run_all();

  int wake_ = -1;
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
};

class PageLoop {
 public:
  struct Round {
    bool busy = false;      // there is more to do at once
    bool finished = false;  // the thread may end
  };

  PageLoop();   // throws std::runtime_error
  ~PageLoop();  // requires that the thread has ended or never began
  PageLoop(const PageLoop&) = delete;
  PageLoop& operator=(const PageLoop&) = delete;

  // Starts the thread. It calls `on_ready` for each socket that can be read, or written if that is
  // watched, or is broken; and `on_round` after each round.
  void start(std::function<void(std::uint64_t key)> on_ready, std::function<Round()> on_round);
  const std::shared_ptr<PageCommands>& commands() const { return commands_; }
  // A round comes at this time at the latest, and maybe earlier. Thread-safe.
  void wake_at(std::chrono::steady_clock::time_point at);
  void join();

  // Thread-safe. Closing a socket ends its watch.
  void watch(int fd, std::uint64_t key);
  void change(int fd, std::uint64_t key, bool writes);

 private:
  void run();
  void clear_timer();

  std::shared_ptr<PageCommands> commands_;
  int poll_ = -1, timer_ = -1;
  std::mutex timer_mutex_;
  std::optional<std::chrono::steady_clock::time_point> timer_at_;  // nullopt: it is not set
  std::function<void(std::uint64_t)> on_ready_;
  std::function<Round()> on_round_;
  std::thread thread_;
};

}  // namespace troupe
