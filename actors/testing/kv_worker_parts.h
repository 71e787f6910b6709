#pragma once
// Test helper for the parts of the KV-cache worker: the parts that share a pool, without the core,
// and readers of the effects that a part returns.
#include <string>
#include <utility>
#include <vector>

#include "actors/testing/effects_of.h"
#include "actors/testing/kv_worker_test.h"

namespace troupe::actors::kv_worker_test {

// Four pages for items and three for users, of four tokens each, as in Bench.
struct PartsBench {
  KvWorkerConfig config;
  PagePool pool{config.pool};
  Serials serials{1 + KvWorkerTimer::ids};
  PersistentTier tier{config.tier};
  CorruptBlocks corrupt{pool, tier, serials};
  IndexReports index{config, pool};
  Requests requests{config, pool};
  Reservations reservations{pool};
  InFlightReads in_flight{pool};
  PendingBlocks pending{config, pool, requests, reservations, in_flight, index};
  Effects effects;

  explicit PartsBench(KvWorkerConfig c = Bench::small()) : config(std::move(c)) {}
  ~PartsBench() { CHECK(pool.check_invariants() == ""); }

  Serial add(std::vector<BlockWant> wants, Address from = worker) {
    const Serial serial = serials.next();
    requests.add({0}, from, AcquireBlocks{.id = serial, .budget_us = 100, .wants = std::move(wants)}, serial);
    return serial;
  }
  // Puts a ready block into the pool.
  const PoolBlock& put(const BlockWant& want) {
    const PoolBlock* block = pool.reserve({want.name, want.kind, want.owner, want.tokens});
    REQUIRE(block);
    REQUIRE(pool.commit(want.name, block->generation, 77));
    return *block;
  }

  template <class T>
  std::vector<T> sent() const {
    return actors::sent<T>(effects);
  }
  template <class T>
  std::vector<std::pair<Serial, T>> started() const {
    return actors::started<T>(effects);
  }
};

}  // namespace troupe::actors::kv_worker_test
