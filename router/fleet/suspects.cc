// Remembers requests that were on a worker when it was lost, so that one bad request cannot kill
// worker after worker. A suspect runs alone; after a second loss it is refused.
#include "router/fleet/suspects.h"

#include <algorithm>
#include <utility>

namespace troupe::router {

std::uint32_t Suspects::strikes(Instant now, std::uint64_t fingerprint) const {
  const auto at = entries_.find(fingerprint);
  return at != entries_.end() && now < at->second.until ? at->second.strikes() : 0;
}

std::uint32_t Suspects::certain(Instant now, std::uint64_t fingerprint) const {
  const auto at = entries_.find(fingerprint);
  if (at == entries_.end() || now >= at->second.until) return 0;
  const auto sure = std::ranges::count(at->second.reported, true, &Strike::sure) +
                    std::ranges::count(at->second.own, true, &Strike::sure);
  return at->second.sure + static_cast<std::uint32_t>(sure);
}

bool Suspects::on_trial(Instant now, std::uint64_t fingerprint) const {
  const auto at = entries_.find(fingerprint);
  return at != entries_.end() && now < std::min(at->second.until, at->second.trial_ends);
}

std::uint32_t Suspects::strike(Instant now, std::uint64_t fingerprint, bool alone,
                               const std::vector<Loss>& losses) {
  Entry* entry = renew(now, fingerprint);
  if (!entry) return 1;
  if (entry->strikes() == 0 || alone) {
    entry->own.push_back({losses, losses.empty()});
  } else if (!entry->own.empty() || !entry->reported.empty()) {
    join(*entry, {losses, losses.empty()});
  }
  return entry->strikes();
}

Suspect Suspects::tell(Instant now, std::uint64_t fingerprint) const {
  Suspect suspect{fingerprint, strikes(now, fingerprint), {}};
  if (suspect.strikes == 0) return suspect;
  const Entry& entry = entries_.at(fingerprint);
  suspect.uncertain = entry.reported;
  suspect.uncertain.insert(suspect.uncertain.end(), entry.own.begin(), entry.own.end());
  return suspect;
}

// Adds these losses to the latest strike, unless that strike is certain.
void Suspects::join(Entry& entry, const Strike& strike) {
  if (entry.own.empty() && entry.reported.empty()) return;
  Strike& latest = entry.own.empty() ? entry.reported.back() : entry.own.back();
  for (const Loss& loss : strike.losses)
    if (std::ranges::find(latest.losses, loss) == latest.losses.end()) latest.losses.push_back(loss);
  latest.sure = latest.sure || strike.sure;
}

// Adds the strikes that the other router has beyond the own count: its latest.
void Suspects::hear(Instant now, const Suspect& suspect) {
  if (suspect.strikes == 0) return clear(suspect.fingerprint);
  const std::uint32_t known = strikes(now, suspect.fingerprint);
  if (suspect.strikes < known) return;
  if (suspect.strikes == known) {
    if (!suspect.uncertain.empty()) join(entries_.at(suspect.fingerprint), suspect.uncertain.back());
    return;
  }
  Entry* entry = renew(now, suspect.fingerprint);
  if (!entry) return;
  const std::size_t more = suspect.strikes - entry->own.size();
  const std::size_t uncertain = std::min(more, suspect.uncertain.size());
  entry->reported.assign(suspect.uncertain.end() - static_cast<std::ptrdiff_t>(uncertain),
                         suspect.uncertain.end());
  entry->sure = static_cast<std::uint32_t>(more - uncertain);
  entry->trial_ends = now + trial_;
}

bool Suspects::clear_disproved(Instant now, NodeId node, Incarnation process, std::uint64_t sequence) {
  bool changed = false;
  std::vector<std::uint64_t> innocent;
  for (auto& [fingerprint, entry] : entries_) {
    if (now >= entry.until) continue;
    const bool own = clear_disproved(entry.own, node, process, sequence);
    const bool reported = clear_disproved(entry.reported, node, process, sequence);
    changed = changed || own || reported;
    if (entry.strikes() == 0) innocent.push_back(fingerprint);
  }
  for (const std::uint64_t fingerprint : innocent) clear(fingerprint);
  return changed;
}

bool Suspects::clear_disproved(std::vector<Strike>& strikes, NodeId node, Incarnation process,
                               std::uint64_t sequence) {
  for (Strike& strike : strikes) {
    strike.sure = strike.sure || std::ranges::any_of(strike.losses, [&](const Loss& loss) {
                    return loss.node == node && loss.process < process;
                  });
    std::erase_if(strike.losses, [&](const Loss& loss) {
      return loss.node == node && loss.process == process && sequence >= loss.proof;
    });
  }
  return std::erase_if(strikes, [](const Strike& s) { return !s.sure && s.losses.empty(); }) > 0;
}

void Suspects::clear(std::uint64_t fingerprint) {
  const auto at = entries_.find(fingerprint);
  if (at == entries_.end()) return;
  by_order_.erase(at->second.order);
  entries_.erase(at);
}

// Moves the entry to the youngest position, with its strikes unless they are too old.
Suspects::Entry* Suspects::renew(Instant now, std::uint64_t fingerprint) {
  Entry entry;
  const auto known = entries_.find(fingerprint);
  if (known != entries_.end() && now < known->second.until) entry = std::move(known->second);
  clear(fingerprint);
  if (most_ == 0) return nullptr;
  while (entries_.size() >= most_) clear(by_order_.begin()->second);
  entry.order = next_order_;
  entry.until = now + memory_;
  by_order_[next_order_++] = fingerprint;
  return &(entries_[fingerprint] = std::move(entry));
}

}  // namespace troupe::router
