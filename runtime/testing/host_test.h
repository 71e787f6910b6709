#pragma once
// Test helpers for hosts: a core and a port made of a function, and a server that keeps its
// messages.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/host/host.h"

namespace troupe {

struct FunctionCore final : Core {
  using Step = std::function<void(Instant, const Event&, Effects&)>;
  explicit FunctionCore(Step step) : step_(std::move(step)) {}
  void step(Instant now, Event&& event, Effects& effects) override { step_(now, event, effects); }
  Step step_;
};
inline std::unique_ptr<Core> core_of(FunctionCore::Step step) {
  return std::make_unique<FunctionCore>(std::move(step));
}

struct FunctionPort final : Port {
  using Run = std::function<JobResult(const Job&, std::uint32_t)>;
  explicit FunctionPort(Run run) : run_(std::move(run)) {}
  JobResult run(const Job& job, std::uint32_t slot) override { return run_(job, slot); }
  Run run_;
};

// Returns a core that reports to `server`, for each message, whether the start timer fired before it:
// id 1, else 0.
inline std::unique_ptr<Core> start_witness(Address server) {
  return core_of([server, started = false](Instant, const Event& event, Effects& effects) mutable {
    if (std::holds_alternative<TimerFired>(event)) started = true;
    if (std::holds_alternative<Received>(event)) effects.send(server, StatusRequest{started ? 1u : 0u});
  });
}

class Inbox {
 public:
  Host::ServerHandler server() {
    return [this](Address from, Message message) {
      std::lock_guard lock(mutex_);
      messages_.push_back({from, std::move(message)});
      changed_.notify_all();
    };
  }
  // Waits for `count` messages in all. The limit only turns a hang into a failure: then fewer are
  // returned.
  std::vector<Received> await(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return messages_.size() >= count; });
    return messages_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Received> messages_;
};

}  // namespace troupe
