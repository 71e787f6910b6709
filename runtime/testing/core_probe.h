#pragma once
// Test helper: feeds events to a core and reads its effects. It keeps the timers that the core sets
// and fires them in run_until(), so that a test says "until 200 us" instead of naming timers.
#include <map>
#include <utility>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe {

class CoreProbe {
 public:
  explicit CoreProbe(Core& core) : core_(core) {}

  Effects effects;  // effects of the last call below

  void start(std::int64_t us = 0) { step(us, TimerFired{start_timer}); }
  void receive(std::int64_t us, Address from, Message message) {
    step(us, Received{from, std::move(message)});
  }
  void done(std::int64_t us, std::uint64_t job, JobResult result) {
    step(us, JobDone{job, std::move(result)});
  }
  void lose(std::int64_t us, NodeId node) { step(us, PeerLost{node}); }
  // Fires every timer that is due by `us`, in order of time; `effects` holds the effects of all of
  // them.
  void run_until(std::int64_t us) {
    effects = {};
    while (!timers_.empty() && timers_.begin()->first.us <= us) {
      const auto [at, timer] = *timers_.begin();
      timers_.erase(timers_.begin());
      apply(at, TimerFired{timer});
    }
  }

  template <class T>
  std::vector<T> sent() const {
    std::vector<T> found;
    for (const auto& effect : effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect))
        if (const auto* message = std::get_if<T>(&send->message)) found.push_back(*message);
    return found;
  }
  std::vector<Address> recipients() const {
    std::vector<Address> found;
    for (const auto& effect : effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect)) found.push_back(send->to);
    return found;
  }
  // Returns the started jobs of one kind: id and work.
  template <class T>
  std::vector<std::pair<std::uint64_t, T>> started() const {
    std::vector<std::pair<std::uint64_t, T>> found;
    for (const auto& effect : effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect))
        if (const auto* work = std::get_if<T>(&start->work)) found.emplace_back(start->job, *work);
    return found;
  }
  double counted(Metric metric) const {
    double sum = 0;
    for (const auto& effect : effects.list)
      if (const auto* count = std::get_if<Effects::Count>(&effect))
        if (count->metric == metric) sum += count->amount;
    return sum;
  }

 private:
  void step(std::int64_t us, Event&& event) {
    effects = {};
    apply({us}, std::move(event));
  }
  void apply(Instant now, Event&& event) {
    Effects step_effects;
    core_.step(now, std::move(event), step_effects);
    for (auto& effect : step_effects.list) {
      if (const auto* set = std::get_if<Effects::SetTimer>(&effect)) timers_.emplace(set->at, set->timer);
      effects.list.push_back(std::move(effect));
    }
  }

  Core& core_;
  std::multimap<Instant, std::uint64_t> timers_;
};

// Returns the value of a status field, or "" if there is none of that name.
inline std::string field_of(const StatusReply& reply, const std::string& name) {
  for (const StatusField& field : reply.fields)
    if (field.name == name) return field.value;
  return "";
}

}  // namespace troupe
