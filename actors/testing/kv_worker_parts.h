#pragma once
// Test helper for the parts of the KV-cache worker: the parts that share a pool, without the core,
// and readers of the effects that a part returns.
#include <string>
#include <utility>
#include <vector>

#include "actors/testing/kv_worker_test.h"

namespace troupe::actors::kv_worker_test {

// Four pages for items and three for users, of four tokens each, as in Bench.
struct PartsBench {
  KvWorkerConfig config;
  PagePool pool{config.pool};
  SerialNumbers serials{1};
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
    std::vector<T> found;
    for (const auto& effect : effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect))
        if (const auto* message = std::get_if<T>(&send->message)) found.push_back(*message);
    return found;
  }
  template <class T>
  std::vector<std::pair<Serial, T>> started() const {
    std::vector<std::pair<Serial, T>> found;
    for (const auto& effect : effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect))
        if (const auto* work = std::get_if<T>(&start->work)) found.emplace_back(start->job, *work);
    return found;
  }
};

}  // namespace troupe::actors::kv_worker_test
