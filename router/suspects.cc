#include "router/suspects.h"

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

void Suspects::clear(std::uint64_t fingerprint) {
  const auto at = entries_.find(fingerprint);
  if (at == entries_.end()) return;
  by_order_.erase(at->second.order);
  entries_.erase(at);
}

void Suspects::set(Instant now, std::uint64_t fingerprint, std::uint32_t strikes) {
  clear(fingerprint);
  if (most_ == 0) return;
  while (entries_.size() >= most_) clear(by_order_.begin()->second);
  entries_[fingerprint] = {strikes, next_order_, now + memory_};
  by_order_[next_order_++] = fingerprint;
}

}  // namespace troupe::router
