#pragma once
// Decides which wanted blocks a request may read or write and which it waits for, and ends the
// request when it releases them. Start with `acquire`.
//
// All blocks of a request are decided in the step in which it arrives. Ready blocks are decided
// first, so that no reservation evicts a block that is also wanted. A block that another request
// makes is waited for. A missing block is pulled from another node, loaded from the tier, or
// written by the request.
#include <map>
#include <vector>

#include "actors/kv_worker/area_savings.h"
#include "actors/kv_worker/corrupt_blocks.h"
#include "actors/kv_worker/pending_blocks.h"

namespace troupe::actors {

class Grants {
 public:
  struct Parts {  // that a grant depends on
    PagePool& pool;
    Serials& serials;
    Requests& requests;
    Reservations& reservations;
    PendingBlocks& pending;
    InFlightReads& in_flight;
    const Pulls& pulls;
    PersistentTier& tier;
    CorruptBlocks& corrupt;
    Scrub& scrub;
  };
  Grants(const KvWorkerConfig& config, const Parts& parts);

  // Blocks that a new request waits for and that are to be fetched.
  struct Fetches {
    Serial request = 0;  // 0 = no new request
    std::vector<const PoolBlock*> loads;
    std::map<NodeId, std::vector<const PoolBlock*>> pulls;  // by the node that has them
  };
  // Decides a request's blocks. The caller starts the fetches and then calls `settle`.
  Fetches acquire(Instant now, Address from, AcquireBlocks&& ask, Effects& effects);
  // Answers the new request, or lets it wait.
  void settle(Serial request, Effects& effects);
  void release(Instant now, Address from, const ReleaseBlocks& release, Effects& effects);
  // Ends the lease or the wait of the request, if it is over. Unknown numbers are ignored.
  void on_timer(Instant now, Serial request, Effects& effects);

  // Hits, misses and savings of this node's requests.
  const AreaSavings& savings() const { return savings_; }

 private:
  bool is_offer(Address from, const AcquireBlocks& ask) const;
  bool may_pull(Instant now, const BlockWant& want, std::size_t pulls_more) const;
  std::vector<const PoolBlock*> find_wanted(const AcquireBlocks& ask) const;
  std::vector<std::size_t> decide_present(Instant now, Serial serial, Request& request, Effects& effects);
  Fetches decide_absent(Instant now, Serial serial, Request& request, const std::vector<std::size_t>& absent,
                        Effects& effects);
  void count_use(Request& request, const BlockWant& want, bool hit);
  void count_uses_elsewhere(const AcquireBlocks& ask);
  void end_request(Instant now, Serial serial, const ReleaseBlocks& release, Effects& effects);
  void end_read(const Request& request, const Hold& hold, const BlockOutcome* outcome, Effects& effects);
  void end_write(const Request& request, std::size_t want, const BlockOutcome* outcome, Effects& effects);

  const KvWorkerConfig& config_;
  Parts parts_;
  AreaSavings savings_;
};

}  // namespace troupe::actors
