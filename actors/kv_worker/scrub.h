#pragma once
// Decides when which blocks of the pool are verified again without a request. Every ready block is
// verified once per interval, a small piece at a time, in order of generation. So a bit that flips
// in memory is found within a round. A slow piece is followed by a pause, so that scrubbing never
// takes more than its share of one core; the round then takes longer. Suspect blocks go first. The
// port does the reading, and the core handles corrupt blocks.
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

class Scrub {
 public:
  struct Config {
    Duration interval{60'000'000};           // length of a round; 0 = off
    double cost = 0.02;                      // maximum fraction of one core
    std::uint64_t piece_bytes = 1ULL << 20;  // approximate size of one job; a block may be larger
    std::uint64_t page_bytes = 0;            // 0 = unknown
    std::size_t suspects_max = 256;
  };
  Scrub(Config config, std::uint32_t pool_pages);

  bool on() const { return config_.interval.us > 0; }
  Instant due() const { return due_; }  // start of the next piece; not yet known while one runs
  bool running() const { return !held_.empty(); }
  std::size_t suspects() const { return suspects_.size(); }

  // Notes a block whose bytes did not match the checksum at a reader. The bytes may have been
  // damaged on the way. If there are too many suspects, further ones are left to the regular round.
  void suspect(std::uint64_t generation);
  // Returns the blocks to verify now, held in the pool; empty if none are due. At the end of a
  // round, take_round() returns its length.
  CheckBlocks next(Instant now, PagePool& pool);
  // Ends the running job and lets go of all its blocks. Returns the generations of corrupt blocks.
  std::vector<std::uint64_t> end(Instant now, const JobResult& result, PagePool& pool);
  std::optional<Duration> take_round();

 private:
  void take(const PoolBlock& block, CheckBlocks& work);
  void walk(Instant now, PagePool& pool, CheckBlocks& work);
  void begin_round(Instant now, const PagePool& pool);

  Config config_;
  std::uint32_t piece_pages_;
  Duration pause_;  // between the starts of two pieces
  Instant due_, began_;
  // Generations of this round: verified so far, and last to verify.
  std::uint64_t after_ = 0, last_ = 0;
  bool walking_ = false;
  std::deque<std::uint64_t> suspects_;
  std::vector<std::uint64_t> held_;  // blocks held by the running job
  std::optional<Duration> round_;
};

}  // namespace troupe::actors
