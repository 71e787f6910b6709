#pragma once
// The one place of hard state (under 1 MB): who leads, which versions are served, who is a member. A few
// keys, each with the revision of its last change; changes are compare-and-set by that revision; a key may be
// bound to a lease and goes with it. Revisions rise over the whole store and are never used twice, so the
// revision at which somebody became leader is a fencing token. No locks: losing a lease demotes its holder
// and nothing else.
//
// Cores ask through a port (the job `Coordinate`), one question at a time. Adapters: FileCoordination (one
// box), EtcdCoordination (a cluster), and the simulation's.
#include <cstdint>
#include <string>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe {

using Revision = std::uint64_t;  // 0: the key is absent
using LeaseId = std::uint64_t;   // 0: none

struct ReadKey {
  std::string key;
};
// A read that is answered when the key's revision is no longer `seen`, or after `wait_us` with what there is
// then.
struct WatchKey {
  std::string key;
  Revision seen = 0;
  std::int64_t wait_us = 0;
};
// Succeeds only if the key's revision is `expected`; else nothing changes and the answer shows what is there.
// With a lease the key goes when that ends; an unknown or ended lease fails.
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
struct KeepLease {  // fails if it has ended
  LeaseId lease = 0;
};
struct Coordinate {
  std::variant<ReadKey, WatchKey, WriteKey, EraseKey, OpenLease, KeepLease> what;
};

// `ok`: what was asked for was done. A read of an absent key is ok and has revision 0.
struct Coordinated {
  bool ok = false;
  Revision revision = 0;  // of the key, now
  std::string value;      // of the key, now
  LeaseId lease = 0;      // OpenLease: the new one
};

class Coordination {
 public:
  virtual ~Coordination() = default;
  // Refusal: the store cannot be reached; whether a change took place, or will yet, is then unknown.
  virtual std::variant<Coordinated, Refusal> ask(const Coordinate& question) = 0;
};

}  // namespace troupe
