// Simulates the coordination store (the cluster's shared keys) for all nodes, with outages for all
// or some, and with losses of its data.
#include "sim/world/sim_coordination.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/coordination/members.h"

namespace troupe::sim {
namespace {

Refusal unreachable() {
  return {RefusalKind::unavailable, "coordination_away", "the coordination store does not answer",
          "coordination", "a store that can be reached"};
}

// Returns the key of a change, or null.
const std::string* changed_key(const Coordinate& question) {
  if (const auto* write = std::get_if<WriteKey>(&question.what)) return &write->key;
  const auto* erase = std::get_if<EraseKey>(&question.what);
  return erase ? &erase->key : nullptr;
}

}  // namespace

SimCoordination::SimCoordination(std::uint64_t seed, Duration latency_min, Duration latency_max,
                                 Duration timeout)
    : random_(seed, 0xc00d), latency_min_(latency_min), latency_max_(latency_max), timeout_(timeout) {}

Duration SimCoordination::time_of(Instant now, NodeId asker, const Coordinate& question) {
  const Duration latency = random_.between(latency_min_, latency_max_);
  if (!reaches(asker)) return timeout_;
  Duration time{static_cast<std::int64_t>(static_cast<double>(latency.us) * faults_.slowness)};
  const auto* watch = std::get_if<WatchKey>(&question.what);
  if (watch && !state_.watched(now.us, *watch)) time.us += watch->wait_us;
  return time;
}

// ---- losses ----

void SimCoordination::replace(Instant now, CoordinationState::Keys keys, Revision last) {
  const CoordinationState::Keys& all = state_.keys();
  before_loss_ = all;
  std::erase_if(before_loss_, [](const auto& entry) { return entry.second.lease != 0; });
  std::erase_if(keys, [](const auto& entry) { return entry.second.lease != 0; });
  if (const auto members = all.find(std::string(members_key)); members != all.end())
    keys.insert_or_assign(members->first, members->second);
  lost_last_ = std::max(lost_last_, state_.last());
  CoordinationState restored(std::move(keys), 0);
  if (restored.last() < last) restored.skip(last);
  state_ = std::move(restored);
  polled_by_ = now + poll;
  lost_at_ = now;
  if (on_change) on_change();
}

void SimCoordination::lose_data(Instant now) {
  ++history_;
  replace(now, {}, 0);
}

void SimCoordination::go_back_to_copy(Instant now) { replace(now, copy_, copied_last_); }

void SimCoordination::raise(Instant now, const SeenRevisions& seen) {
  Revision above = seen.highest > state_.last() ? seen.highest + raise_margin : 0;
  if (polled_by_ && now >= *polled_by_) {
    polled_by_.reset();
    if (lost_last_ > state_.last()) above = std::max(above, lost_last_ + raise_margin);
  }
  if (above > 0) state_.ask(now.us, Coordinate{RaiseRevisions{above}});
}

std::variant<CoordinationReply, Refusal> SimCoordination::ask(Instant now, NodeId asker,
                                                              const Coordinate& question) {
  const bool answer_lost = chance(random_, faults_.answers_lost);
  if (!reaches(asker)) return unreachable();
  SeenRevisions& seen = seen_[asker];
  raise(now, seen);
  // A change for another history than that of the data is not made, whatever its revision.
  const std::string* key = changed_key(question);
  const bool is_stale = key && seen.history != 0 && seen.history != history_;
  const Revision before = state_.last();
  auto answer = state_.ask(now.us, is_stale ? Coordinate{ReadKey{*key}} : question);
  if (auto* reply = std::get_if<CoordinationReply>(&answer); reply && is_stale) reply->ok = false;
  seen = {history_, state_.last()};
  if (on_change && state_.last() != before) on_change();
  if (answer_lost) return unreachable();
  return answer;
}

}  // namespace troupe::sim
