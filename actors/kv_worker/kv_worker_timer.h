#pragma once
// Ids of the timers that belong to the KV-cache worker itself. The timers of a request or a pull have
// its serial number, and the number of a pull is also the id of its question to the owner.
#include "runtime/actor/serials.h"

namespace troupe::actors {

struct KvWorkerTimer {
  static constexpr Serial report = 1, store = 2, heartbeat = 3, scrub = 4, lending = 5, migration = 6;
  static constexpr Serial ids = 16;  // serial numbers are above these
};

}  // namespace troupe::actors
