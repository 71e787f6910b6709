#pragma once
// Requests that were running on a worker while it was lost (promise 12). After one strike a request of the
// same content runs alone, so that it takes nobody with it; only a loss of such a run is the second strike,
// and then it is poison and refused. What is remembered is bounded in time and number; the oldest is
// forgotten first. A suspect that ran well is cleared, here and at the other routers. A worker seems lost
// also when only the connection to it was: strikes are taken back when the same process is heard again.
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/core.h"

namespace troupe::router {

inline constexpr std::uint32_t poison_strikes = 2;

class Suspects {
 public:
  explicit Suspects(std::size_t most, Duration memory = {600'000'000}) : most_(most), memory_(memory) {}

  std::uint32_t strikes(Instant now, std::uint64_t fingerprint) const;
  // The new count. Losses of runs beside others are one strike in all.
  std::uint32_t strike(Instant now, std::uint64_t fingerprint, bool alone);
  // The last strike was for the loss of that process, which may live.
  void doubt(Instant now, std::uint64_t fingerprint, NodeId node, Incarnation process);
  // It does: the new counts of what was struck for its loss, not after `since`. What is in doubt about
  // earlier processes of its node is sure now.
  std::vector<Suspect> take_back(Instant now, NodeId node, Incarnation process, Instant since);
  // Another router's count. Hearing it twice changes nothing; 0: it was cleared there.
  void hear(Instant now, const Suspect& suspect);
  void clear(std::uint64_t fingerprint);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint32_t strikes = 0;
    std::uint64_t order = 0;
    Instant until;
  };
  struct Doubt {
    std::uint64_t fingerprint = 0;
    Incarnation process = 0;
    Instant at;
  };
  void erase(std::uint64_t fingerprint);
  void set(Instant now, std::uint64_t fingerprint, std::uint32_t strikes);

  std::size_t most_;
  Duration memory_;
  std::map<std::uint64_t, Entry> entries_;           // by fingerprint
  std::map<std::uint64_t, std::uint64_t> by_order_;  // fingerprints, oldest first
  std::uint64_t next_order_ = 0;
  std::map<NodeId, std::vector<Doubt>> doubts_;  // about entries alone
};

}  // namespace troupe::router
