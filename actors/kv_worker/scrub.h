#pragma once
// Decides when which blocks of the pool are verified again without a request. Every ready block is
// verified once per interval, a small piece at a time, in order of generation. So a bit that flips
// in memory is found within a round. A slow piece is followed by a pause, so that scrubbing never
// takes more than its share of one core; the round then takes longer. Blocks that a remote reader
// suspects go first. The port does the reading. A corrupt block is quarantined, so that no request
// finds it again.
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "actors/kv_worker/corrupt_blocks.h"
#include "actors/kv_worker/kv_worker_timer.h"
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
  Scrub(Config config, PagePool& pool, Serials& serials, CorruptBlocks& corrupt);

  // Starts to verify the next piece if it is due.
  void advance(Instant now, Effects& effects);
  // Returns false if the job is not a piece of the scrubber.
  bool on_done(Instant now, const JobDone& done, Effects& effects);
  std::string check_bounds() const;  // "" or the exceeded bound

  // Notes a block whose bytes did not match the checksum at a reader. The bytes may have been
  // damaged on the way. If there are too many suspects, further ones are left to the regular round.
  void suspect(std::uint64_t generation);

 private:
  CheckBlocks next(Instant now, Effects& effects);
  void take(const PoolBlock& block, CheckBlocks& work);
  void walk(Instant now, CheckBlocks& work, Effects& effects);
  void begin_round(Instant now);
  std::vector<std::uint64_t> end(Instant now, const JobResult& result);

  Config config_;
  PagePool& pool_;
  Serials& serials_;
  CorruptBlocks& corrupt_;
  std::uint32_t piece_pages_;
  Duration pause_;  // between the starts of two pieces
  Instant due_, began_;
  // Generations of this round: verified so far, and last to verify.
  std::uint64_t after_ = 0, last_ = 0;
  bool walking_ = false;
  std::deque<std::uint64_t> suspects_;
  std::vector<std::uint64_t> held_;  // blocks held by the running job
  Serial job_ = 0;                   // 0 = not running
};

}  // namespace troupe::actors
