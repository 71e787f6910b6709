#pragma once
// Test helpers for the KV-cache worker: names and wants from small numbers, and a bench with a
// worker that has a few pages and an inference worker that acquires and releases.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "actors/kv_worker/kv_worker_core.h"
#include "runtime/testing/core_probe.h"

namespace troupe::actors::kv_worker_test {  // separate from other test benches in this executable

inline constexpr Address meta{1, Role::cache_meta}, allocator{1, Role::allocator}, server{1, Role::server},
    worker{1, Role::inference_worker}, far{2, Role::kv_worker};

inline BlockName name(std::uint8_t n) {
  BlockName result;
  result.bytes[0] = n;
  return result;
}
inline BlockWant item(std::uint8_t n, std::uint32_t tokens = 4) {
  return {name(n), SegmentKind::item, "item " + std::to_string(n), tokens};
}
inline BlockWant user(std::uint8_t n, std::uint32_t tokens = 4) {
  return {name(n), SegmentKind::user, "user " + std::to_string(n), tokens};
}
inline BlockWant at(NodeId node, BlockWant want) {
  want.at = node;
  return want;
}

// Four pages for items and three for users, of four tokens each. Pins for other nodes last 1,100
// us.
struct Bench {
  KvWorkerCore core;
  CoreProbe probe{core};
  RequestId last = 0;

  static KvWorkerConfig small() {
    return {.cache_metas = {1, 2},
            .pool = pool_sizes(7, 4, {4, 3}),
            .read_lease = {1'000},
            .pulls = true,
            .token_bytes = 10,
            .scrub = {.interval = {0}},
            .check_reads = 0,
            .pulling = {.back_off = {10}}};
  }
  explicit Bench(KvWorkerConfig config = small()) : core(std::move(config)) {}
  ~Bench() {
    CHECK(core.pool().check_invariants() == "");
    CHECK(core.check_bounds() == "");
  }

  // Returns the grants if they are sent at once; empty if the request waits, for at most 100 us.
  std::vector<BlockGrant> acquire(std::int64_t us, std::vector<BlockWant> wants,
                                  std::vector<BlockName> evict_first = {}, bool may_evict = true) {
    probe.receive(
        us, worker,
        AcquireBlocks{++last, 100, std::move(wants), {.evict_first = std::move(evict_first)}, may_evict});
    return granted();
  }
  // Returns the grants of the first answer among the latest effects.
  std::vector<BlockGrant> granted() const {
    const auto answers = probe.sent<BlocksAcquired>();
    return answers.empty() ? std::vector<BlockGrant>{} : answers[0].grants;
  }
  void release(std::int64_t us, RequestId id, std::uint8_t block, const BlockGrant& grant, Outcome outcome) {
    probe.receive(us, worker, ReleaseBlocks{id, {{name(block), grant.generation, outcome, 77}}});
  }
  void write(std::int64_t us, const BlockWant& want) {  // acquires and writes at once
    const auto grants = acquire(us, {want});
    REQUIRE(grants.at(0).grant == Grant::write);
    probe.receive(us, worker, ReleaseBlocks{last, {{want.name, grants[0].generation, Outcome::written, 77}}});
  }
  void forget(std::int64_t us, const Forget& forget) {  // from a known leader
    probe.receive(us, meta, LeaderBeat{forget.token});
    probe.receive(us, meta, forget);
  }
  // Returns the latest changes sent to the first cache-meta; empty if there are none.
  CacheChanges sent_changes() const {
    const auto changes = probe.sent<CacheChanges>();
    return changes.empty() ? CacheChanges{} : changes[0];
  }
};

}  // namespace troupe::actors::kv_worker_test
