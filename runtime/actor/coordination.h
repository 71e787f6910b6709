#pragma once
// Access to the hard state (under 1 MB): the leader, the served versions and the members. It
// consists of a few keys, each with the revision of its last change. A change is a compare-and-set
// by that revision. A key may be bound to a lease; it is erased when the lease ends. Revisions rise
// over the whole store and are never reused, so the revision at which a node became leader is its
// fencing token. There are no locks: losing a lease only demotes its holder.
//
// A store may lose its data, or go back to an older copy. Then keys are absent or have smaller
// revisions than before. Whoever knows a larger revision raises the numbers (RaiseRevisions), so
// that later changes count as newer than everything that was seen before the loss.
//
// Cores ask through a port (the job `Coordinate`), one question at a time. Adapters:
// FileCoordination (single node), EtcdCoordination (cluster) and the simulation's.
#include <cstdint>
#include <string>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe {

using Revision = std::uint64_t;  // 0 = the key is absent
using LeaseId = std::uint64_t;   // 0 = none

struct ReadKey {
  std::string key;
};
// A read that is answered when the key's revision differs from `seen`, or after `wait_us` with the
// present state.
struct WatchKey {
  std::string key;
  Revision seen = 0;
  std::int64_t wait_us = 0;
};
// Succeeds only if the key's revision is `expected`; otherwise nothing changes and the answer shows
// the present state. With a lease, the key is erased when the lease ends. Fails if the lease is
// unknown or has ended.
struct WriteKey {
  std::string key, value;
  Revision expected = 0;
  LeaseId lease = 0;
};
struct EraseKey {
  std::string key;
  Revision expected = 0;
};
struct OpenLease {
  std::int64_t ttl_us = 0;
};
struct KeepLease {  // renews the lease; fails if it has ended
  LeaseId lease = 0;
};
// Makes the revisions of all later changes larger than `above`; the keys keep theirs.
struct RaiseRevisions {
  static constexpr Revision above_max = Revision{1} << 62;
  Revision above = 0;  // at most `above_max`
};
struct Coordinate {
  std::variant<ReadKey, WatchKey, WriteKey, EraseKey, OpenLease, KeepLease, RaiseRevisions> what;
};

// Answer to a Coordinate job. `ok`: the request was done. A read of an absent key is ok and has
// revision 0.
struct CoordinationReply {
  bool ok = false;
  Revision revision = 0;  // of the key, now
  std::string value;      // of the key, now
  LeaseId lease = 0;      // the new lease, for OpenLease
  bool outdated = false;  // the key was last changed before revisions were raised
};

class Coordination {
 public:
  virtual ~Coordination() = default;
  // Returns a Refusal if the store cannot be reached. Then it is unknown whether a change took
  // place or still will.
  virtual std::variant<CoordinationReply, Refusal> ask(const Coordinate& question) = 0;
};

}  // namespace troupe
