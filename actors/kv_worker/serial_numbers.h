#pragma once
// Numbers of the KV-cache worker's requests, pulls and jobs, in order of arrival. The number of a
// request or pull is also the id of its timers, and the number of a pull is the id of its question
// to the owner. Numbers start above those of earlier processes, so that late answers to these are
// recognised.
#include <cstdint>

#include "runtime/actor/core.h"

namespace troupe::actors {

using Serial = std::uint64_t;

// Ids of the timers that belong to the worker itself.
struct KvWorkerTimer {
  static constexpr Serial report = 1, store = 2, heartbeat = 3, scrub = 4, lending = 5, migration = 6;
  static constexpr Serial ids = 16;  // serial numbers are at least this
};

class SerialNumbers {
 public:
  explicit SerialNumbers(Incarnation incarnation) : next_(incarnation + KvWorkerTimer::ids) {}

  Serial next() { return next_++; }

 private:
  Serial next_;
};

}  // namespace troupe::actors
