#pragma once
// Requests that were running on a worker while it was lost (promise 12). After one strike a request of the
// same content runs alone, so that it takes nobody with it; only a loss of such a run is the second strike,
// and then it is poison and refused. What is remembered is bounded in time and number; the oldest is
// forgotten first. A suspect that ran well is cleared, here and at the other routers.
//
// A worker seems lost also when only the connection to it was. A strike stands for one or more losses, and is
// taken back when all of them were shown to be none: the same process said something that it cannot have said
// before the loss. Each router hears that by itself, of what others told it too: they may have lost the way
// to one another as well.
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
  // trial: how long a router that tells of a strike is given to try the request alone.
  explicit Suspects(std::size_t most, Duration memory = {600'000'000}, Duration trial = {1'000'000})
      : most_(most), memory_(memory), trial_(trial) {}

  std::uint32_t strikes(Instant now, std::uint64_t fingerprint) const;
  // Another router has struck it and tries it alone: who does so too may kill a third worker.
  bool on_trial(Instant now, std::uint64_t fingerprint) const;
  // The new count. Losses of runs beside others are one strike in all.
  std::uint32_t strike(Instant now, std::uint64_t fingerprint, bool alone,
                       const std::vector<Loss>& losses = {});
  // What other routers are told.
  Suspect tell(Instant now, std::uint64_t fingerprint) const;
  // Another router told it. Hearing it twice changes nothing; 0 strikes: it was cleared there.
  void hear(Instant now, const Suspect& suspect);
  // A heartbeat was heard; true if it took strikes back. Losses of earlier processes of the node are sure
  // from now on.
  bool take_back(Instant now, NodeId node, Incarnation process, std::uint64_t sequence);
  void clear(std::uint64_t fingerprint);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint32_t sure = 0;    // told by other routers, without a doubt
    std::vector<Strike> told;  // by other routers
    std::vector<Strike> own;
    Instant trial_ends;  // elsewhere
    std::uint64_t order = 0;
    Instant until;
    std::uint32_t strikes() const { return sure + static_cast<std::uint32_t>(told.size() + own.size()); }
  };
  Entry* renew(Instant now, std::uint64_t fingerprint);  // null if nothing may be remembered
  static void join(Entry& entry, const Strike& strike);
  static bool take_back(std::vector<Strike>& strikes, NodeId node, Incarnation process,
                        std::uint64_t sequence);

  std::size_t most_;
  Duration memory_, trial_;
  std::map<std::uint64_t, Entry> entries_;           // by fingerprint
  std::map<std::uint64_t, std::uint64_t> by_order_;  // fingerprints, oldest first
  std::uint64_t next_order_ = 0;
};

}  // namespace troupe::router
