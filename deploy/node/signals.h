#pragma once
// The signals of a serving process: SIGINT and SIGTERM end it, SIGHUP makes it reload.
#include <pthread.h>
#include <signal.h>

#include <chrono>

namespace troupe::deploy {

// Blocks the signals in all threads, so that only its own calls receive them. Constructed before
// any thread starts.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    sigset_t all = set_;
    sigaddset(&all, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
  }
  // Waits for any signal, including SIGHUP.
  int wait() const {
    sigset_t all = set_;
    sigaddset(&all, SIGHUP);
    int signal = 0;
    sigwait(&all, &signal);
    return signal;
  }
  // True if a signal that ends the process arrives within `time`.
  bool arrived_within(std::chrono::microseconds time) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
    const timespec limit{seconds.count(), std::chrono::nanoseconds(time - seconds).count()};
    return sigtimedwait(&set_, nullptr, &limit) > 0;
  }

 private:
  sigset_t set_;  // signals that end the process
};

}  // namespace troupe::deploy
