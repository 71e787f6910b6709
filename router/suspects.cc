#include "router/suspects.h"

#include <utility>

namespace troupe::router {

std::uint32_t Suspects::strikes(Instant now, std::uint64_t fingerprint) const {
  const auto at = entries_.find(fingerprint);
  return at != entries_.end() && now < at->second.until ? at->second.strikes : 0;
}

std::uint32_t Suspects::strike(Instant now, std::uint64_t fingerprint, bool alone) {
  const std::uint32_t before = strikes(now, fingerprint);
  const std::uint32_t count = before == 0 || alone ? before + 1 : before;
  set(now, fingerprint, count);
  return count;
}

void Suspects::hear(Instant now, const Suspect& suspect) {
  if (suspect.strikes == 0) return clear(suspect.fingerprint);
  if (suspect.strikes > strikes(now, suspect.fingerprint)) set(now, suspect.fingerprint, suspect.strikes);
}

void Suspects::doubt(Instant now, std::uint64_t fingerprint, NodeId node, Incarnation process) {
  if (entries_.contains(fingerprint)) doubts_[node].push_back({fingerprint, process, now});
}

std::vector<Suspect> Suspects::take_back(Instant now, NodeId node, Incarnation process, Instant since) {
  std::vector<Suspect> changed;
  const auto at = doubts_.find(node);
  if (at == doubts_.end()) return changed;
  std::vector<Doubt> doubts = std::move(at->second);
  doubts_.erase(at);
  for (const Doubt& doubt : doubts) {
    if (doubt.process < process) continue;
    if (doubt.at > since) {
      doubts_[node].push_back(doubt);
    } else if (const std::uint32_t before = strikes(now, doubt.fingerprint); before > 0) {
      changed.push_back({doubt.fingerprint, before - 1});
    }
  }
  for (const Suspect& suspect : changed) {
    if (suspect.strikes == 0)
      clear(suspect.fingerprint);
    else
      set(now, suspect.fingerprint, suspect.strikes);
  }
  return changed;
}

void Suspects::clear(std::uint64_t fingerprint) {
  erase(fingerprint);
  for (auto& [node, doubts] : doubts_)
    std::erase_if(doubts, [&](const Doubt& doubt) { return doubt.fingerprint == fingerprint; });
}

void Suspects::erase(std::uint64_t fingerprint) {
  const auto at = entries_.find(fingerprint);
  if (at == entries_.end()) return;
  by_order_.erase(at->second.order);
  entries_.erase(at);
}

void Suspects::set(Instant now, std::uint64_t fingerprint, std::uint32_t strikes) {
  erase(fingerprint);
  if (most_ == 0) return;
  while (entries_.size() >= most_) clear(by_order_.begin()->second);
  entries_[fingerprint] = {strikes, next_order_, now + memory_};
  by_order_[next_order_++] = fingerprint;
}

}  // namespace troupe::router
