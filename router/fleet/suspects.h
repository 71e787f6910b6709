#pragma once
// Remembers requests that were running on a worker when it was lost (promise 12). After one strike,
// a request with the same content runs alone, so that it cannot take others down with it. A loss
// during such a run is the second strike: the request is poison and is refused. Memory is bounded
// in time and number; the oldest entry is forgotten first. A suspect that ran well is cleared, here
// and at the other routers.
//
// A worker also seems lost when only the connection to it failed. A strike stands for one or more
// losses. It is taken back when each loss was disproved: the same process sent something that it
// cannot have sent before the loss. Each router checks this by itself, also for strikes that other
// routers reported, because routers may be disconnected from each other too.
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/actor/messages.h"

namespace troupe::router {

inline constexpr std::uint32_t poison_strikes = 2;

class Suspects {
 public:
  // trial: time that a router which reports a strike has to try the request alone.
  explicit Suspects(std::size_t most, Duration memory = {600'000'000}, Duration trial = {1'000'000})
      : most_(most), memory_(memory), trial_(trial) {}

  std::uint32_t strikes(Instant now, std::uint64_t fingerprint) const;
  // Returns how many of them are certain: the process that was lost is known to have ended.
  std::uint32_t certain(Instant now, std::uint64_t fingerprint) const;
  // Returns true while another router that reported a strike tries the request alone. A second
  // trial at the same time could kill a third worker.
  bool on_trial(Instant now, std::uint64_t fingerprint) const;
  // Returns the new count. Losses of runs beside other requests count as one strike in all.
  std::uint32_t strike(Instant now, std::uint64_t fingerprint, bool alone,
                       const std::vector<Loss>& losses = {});
  // Returns the report for other routers.
  Suspect tell(Instant now, std::uint64_t fingerprint) const;
  // Handles another router's report. Hearing it twice changes nothing; 0 strikes = cleared there.
  void hear(Instant now, const Suspect& suspect);
  // Handles a heartbeat; returns true if it took strikes back. Losses of earlier processes of the
  // node become certain.
  bool clear_disproved(Instant now, NodeId node, Incarnation process, std::uint64_t sequence);
  void clear(std::uint64_t fingerprint);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint32_t sure = 0;        // strikes that other routers reported as certain
    std::vector<Strike> reported;  // strikes that other routers reported
    std::vector<Strike> own;
    Instant trial_ends;  // end of another router's trial
    std::uint64_t order = 0;
    Instant until;
    std::uint32_t strikes() const { return sure + static_cast<std::uint32_t>(reported.size() + own.size()); }
  };
  Entry* renew(Instant now, std::uint64_t fingerprint);  // null if nothing may be remembered
  static void join(Entry& entry, const Strike& strike);
  static bool clear_disproved(std::vector<Strike>& strikes, NodeId node, Incarnation process,
                              std::uint64_t sequence);

  std::size_t most_;
  Duration memory_, trial_;
  std::map<std::uint64_t, Entry> entries_;           // by fingerprint
  std::map<std::uint64_t, std::uint64_t> by_order_;  // fingerprints, oldest first
  std::uint64_t next_order_ = 0;
};

}  // namespace troupe::router
