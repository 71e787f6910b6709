#pragma once
// When which blocks of the pool are checked again though nobody asks for them: all ready ones once per
// interval, a small piece at a time, in order of generation, so that a bit that flips in memory is found
// within a round. A piece that took long is followed by a rest, so that scrubbing never takes more than its
// share of one core; then a round takes longer. Suspects go first. The reading is the port's; what is found
// is the core's to handle.
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
    Duration interval{60'000'000};           // of a round; 0: off
    double cost = 0.02;                      // most of one core
    std::uint64_t piece_bytes = 1ULL << 20;  // about, of one job; a block may be larger
    std::uint64_t page_bytes = 0;            // 0: not known
    std::size_t suspects_max = 256;
  };
  Scrub(Config config, std::uint32_t pool_pages);

  bool on() const { return config_.interval.us > 0; }
  Instant due() const { return due_; }  // of the next piece; while one runs: not known yet
  bool running() const { return !held_.empty(); }
  std::size_t suspects() const { return suspects_.size(); }

  // Somebody read other bytes than the checksum says, and they may have been damaged on the way to him. Of
  // too many the walk finds out.
  void suspect(std::uint64_t generation);
  // What is due now, held in the pool; empty if nothing is. A round that ends says how long it took.
  CheckBlocks next(Instant now, PagePool& pool);
  // It was read. The blocks whose bytes are not theirs, by generation; all are let go by the pool.
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
  std::uint64_t after_ = 0, last_ = 0;  // generations of this round: checked up to here, and to be
  bool walking_ = false;
  std::deque<std::uint64_t> suspects_;
  std::vector<std::uint64_t> held_;  // by the running job
  std::optional<Duration> round_;
};

}  // namespace troupe::actors
