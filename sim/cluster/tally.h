#pragma once
// What became of the requests of a run, and of the cluster meanwhile; sums add up.
#include <cstdint>

namespace troupe::sim {

struct Tally {
  std::uint64_t requests = 0, answered = 0, refused = 0, expired = 0,
                cut_off = 0;      // cut off: their router died
  std::uint64_t of_others = 0;    // answers of rankings of the models behind the first
  std::uint64_t approximate = 0;  // answers that leave a share of their prompt approximate
  std::uint64_t tokens_total = 0, tokens_reused = 0;
  // Sent 5 (10) heartbeats or more after a kill, with nothing else wrong, and not lost with their router.
  std::uint64_t after_kill = 0, after_kill_ok = 0, long_after_kill = 0, long_after_kill_ok = 0;
  // What the harness could not do: requests that nobody listened to; drills with too few answers to judge.
  std::uint64_t unsent = 0, unjudged = 0;
  std::uint64_t kills = 0, swaps = 0;
  std::uint64_t joined = 0, left = 0,
                left_whole = 0;  // workers; whole: when routers had handed on what it had
  std::uint64_t users_handed_on = 0,
                users_left_behind = 0;  // blocks of those that left, given to others, and not
  std::uint64_t struck = 0;             // answers from bits that had flipped in memory and were not found yet
};
Tally& operator+=(Tally& sum, const Tally& one);

}  // namespace troupe::sim
