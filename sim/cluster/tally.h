#pragma once
// Counts of a run's outcomes and of cluster events; they can be added up.
#include <cstdint>

namespace troupe::sim {

struct Tally {
  // cut_off: lost with their router.
  std::uint64_t requests = 0, answered = 0, refused = 0, expired = 0, cut_off = 0;
  std::uint64_t of_others = 0;    // rankings answered by the additional models
  std::uint64_t approximate = 0;  // answers that leave part of their prompt approximate
  std::uint64_t tokens_total = 0, tokens_reused = 0;
  // Sent at least 5 (10) heartbeats after a kill, with nothing else wrong, and not lost with their router.
  std::uint64_t after_kill = 0, after_kill_ok = 0, long_after_kill = 0, long_after_kill_ok = 0;
  // Limits of the harness: requests that no router accepted; drills with too few answers to judge.
  std::uint64_t unsent = 0, unjudged = 0;
  std::uint64_t kills = 0, swaps = 0;
  // Workers; left_whole: those that left after the routers had migrated their blocks.
  std::uint64_t joined = 0, left = 0, left_whole = 0;
  // Blocks of leaving workers that were migrated, and that were lost.
  std::uint64_t users_handed_on = 0, users_left_behind = 0;
  std::uint64_t struck = 0;  // answers from flipped bits that were not found yet
};
Tally& operator+=(Tally& sum, const Tally& one);

}  // namespace troupe::sim
