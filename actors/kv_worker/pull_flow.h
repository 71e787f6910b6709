#pragma once
// Pulls blocks from other nodes. A wanted block that is absent here and held elsewhere is reserved
// here. The owner is asked to pin it, and the port copies it. A block that arrived whole before the
// owner's lease ended is committed. If any step fails, the block's reservation ends, and the first
// request that waits for the block becomes its writer.
//
// A pull waits for another node's worker, which answers at once, and only for a limited time.
#include <cstdint>
#include <vector>

#include "actors/kv_worker/corrupt_blocks.h"
#include "actors/kv_worker/pending_blocks.h"
#include "actors/kv_worker/pulls.h"

namespace troupe::actors {

class PullFlow {
 public:
  PullFlow(const KvWorkerConfig& config, PagePool& pool, Serials& serials, InFlightReads& in_flight,
           CorruptBlocks& corrupt, PendingBlocks& pending);

  // Asks `owner` for blocks that are pending here and for which the request waits.
  void ask(Instant now, const Request& request, NodeId owner, const std::vector<const PoolBlock*>& blocks,
           Effects& effects);
  void on_acquired(Instant now, Address from, BlocksAcquired&& acquired, Effects& effects);
  // Returns false if the job is not a pull.
  bool on_done(Instant now, const JobDone& done, Effects& effects);
  // Gives up a pull whose owner has been silent for too long. Unknown numbers are ignored.
  void on_timer(Instant now, Serial serial, Effects& effects);
  // Gives up pulls from a lost node, except those that run.
  void lose(Instant now, NodeId node, Effects& effects);

  const Pulls& pulls() const { return pulls_; }
  std::uint64_t blocks_pulled() const { return blocks_pulled_; }

 private:
  void keep_granted(Pull& pull, BlocksAcquired&& acquired, Effects& effects);
  void keep_awaited(Pull& pull, Effects& effects);
  void run(Instant now, Effects& effects);
  void run_one(Instant now, Serial serial, Effects& effects);
  bool has_in_flight_reader(const Pull& pull) const;
  void on_pulled(Instant now, Serial serial, const Pull& pull, const JobResult& result, Effects& effects);
  void count_arrival(Instant now, const Pull& pull, const PullEntry& entry, Effects& effects);
  void end_entry(const PullEntry& entry, bool arrived, Effects& effects);
  void give_up(Instant now, Serial serial, Effects& effects);

  const KvWorkerConfig& config_;
  PagePool& pool_;
  Serials& serials_;
  InFlightReads& in_flight_;
  CorruptBlocks& corrupt_;
  PendingBlocks& pending_;
  Pulls pulls_;
  std::uint64_t blocks_pulled_ = 0;
};

}  // namespace troupe::actors
