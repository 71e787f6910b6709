#pragma once
// The KV-cache worker of a node owns the node's pages. It pins blocks that a request may reuse and
// reserves pages for blocks that the request will compute. It pulls blocks from other nodes, evicts
// blocks when pages are short, and keeps item blocks in a persistent tier. It also reports to every
// cache-meta which blocks it adds and removes. This class hands each event to the part that owns
// the matter; the parts share the pool. Start with Grants (grants.h).
//
// A block is computed by one request at a time. Any other request for it waits until the block is
// ready, until the writer gives up, or until the request's own wait deadline. When a writer gives
// up, the first waiting request becomes the writer. When a wait deadline ends, the request computes
// the block for itself.
//
// Waiting cannot deadlock. Grants decides all blocks of a request in the step in which it arrives,
// so a request waits only for requests that arrived earlier. PendingBlocks makes the earliest of
// the waiting requests the new writer, so this stays true. The earliest request of all waits for
// none, so there is no cycle. A pull (PullFlow) waits for another node's worker, which answers at
// once, and only for a limited time. A load waits for a job of the tier, which always ends.
#include <cstdint>
#include <string>

#include "actors/kv_worker/grants.h"
#include "actors/kv_worker/kv_worker_config.h"
#include "actors/kv_worker/leader_orders.h"
#include "actors/kv_worker/pool_split.h"
#include "actors/kv_worker/pull_flow.h"
#include "actors/kv_worker/tier_loads.h"
#include "runtime/actor/core.h"

namespace troupe::actors {

class KvWorkerCore final : public Core {
 public:
  explicit KvWorkerCore(KvWorkerConfig config);
  void step(Instant now, Event&& event, Effects& effects) override;

  // For tests and the simulation's checkers.
  const PagePool& pool() const { return pool_; }
  std::string check_bounds() const;                               // "" or the exceeded bound
  std::size_t waiting() const { return requests_.unanswered(); }  // requests not yet decided
  std::size_t waiting_for_nobody() const { return pending_.waiting_for_nobody(); }
  std::size_t pending() const { return pending_.size(); }
  std::uint32_t times_wanted(const BlockName& name) const { return reservations_.times_wanted(name); }
  std::size_t remote_reads() const { return requests_.remote_reads(); }
  std::size_t pulls_running() const { return pull_flow_.pulls().running(); }
  std::size_t loads_running() const { return tier_.loads(); }
  PoolReport report() const { return split_.report(); }
  const RowLending& rows() const { return split_.rows(); }
  const Migration& migration() const { return migration_; }

 private:
  void on_message(Instant now, Address from, Message&& message, Effects& effects);
  void on_cache_meta(Address from, const Message& message, Effects& effects);
  void on_start(Instant now, Effects& effects);
  void on_timer(Instant now, std::uint64_t timer, Effects& effects);
  void on_done(Instant now, JobDone&& done, Effects& effects);
  void on_acquire(Instant now, Address from, AcquireBlocks&& ask, Effects& effects);
  void on_acquired(Instant now, Address from, BlocksAcquired&& acquired, Effects& effects);
  void on_drain(Instant now, Address from, Drain&& drain, Effects& effects);
  void on_forget(Address from, const Forget& forget, Effects& effects);
  void lose(Instant now, NodeId node, Effects& effects);
  StatusReply status(Instant now, RequestId id) const;
  void add_migration(StatusReply& reply) const;

  // Each part refers only to those above it.
  const KvWorkerConfig config_;
  PagePool pool_;
  Serials serials_;
  PersistentTier tier_;
  CorruptBlocks corrupt_;
  Scrub scrub_;
  IndexReports index_;
  LeaderOrders leader_;
  Requests requests_;
  Reservations reservations_;
  InFlightReads in_flight_;
  PendingBlocks pending_;
  PullFlow pull_flow_;
  TierJobs tier_jobs_;
  TierLoads tier_loads_;
  Grants grants_;
  PoolSplit split_;
  Migration migration_;
  bool ready_ = false;
};

}  // namespace troupe::actors
