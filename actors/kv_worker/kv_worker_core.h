#pragma once
// The KV-cache worker of a node owns the node's pages. It pins blocks that a request may reuse and
// reserves pages for blocks that the request will compute. It pulls blocks from other nodes, evicts
// blocks when pages are short, and keeps item blocks in a persistent tier. It also reports to every
// cache-meta which blocks it adds and removes. Start with `on_acquire` and `on_release`.
//
// A block is computed by one request at a time. Any other request for it waits until the block is
// ready, until the writer gives up, or until the request's own wait deadline. When a writer gives
// up, the first waiting request becomes the writer. When a wait deadline ends, the request computes
// the block for itself.
//
// Waiting cannot deadlock. All blocks of a request are decided in the step in which it arrives, so
// a request waits only for requests that arrived earlier. A new writer is the earliest of the
// waiting requests, so this stays true. The earliest request of all waits for none, so there is no
// cycle. A pull waits for another node's worker, which answers at once, and only for a limited
// time.
//
// A request with `early` is also told when the last block that it waits for is being copied from
// another node. It may then read that block's pages behind the copy (runtime/pool/page_arrivals.h).
// It keeps waiting, and gets its answer when the copy has ended. Until it releases the pages nobody
// else gets them, however the copy ended (kv_worker_in_flight.cc).
//
// A worker that leaves the cluster for good offers its user blocks to the workers that stay, which
// pull them (kv_worker_migration.cc).
//
// Grants to the inference worker of this node last until they are released, because both are one
// process. KV-cache workers of other nodes get pins with a lease. They count the lease from their
// request; this worker counts it from the request's arrival, and a tenth longer. As long as clocks
// run within 10 % of each other, no page is reused under a reader (promise 3), whatever messages
// are lost. A lost node keeps its pins until then: it may only be cut off.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/kv_worker/area_savings.h"
#include "actors/kv_worker/migration.h"
#include "actors/kv_worker/persistent_tier.h"
#include "actors/kv_worker/pulls.h"
#include "actors/kv_worker/row_lending.h"
#include "actors/kv_worker/scrub.h"
#include "placement/popularity/frequency_sketch.h"
#include "runtime/actor/core.h"
#include "runtime/actor/subscribers.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

struct KvWorkerConfig {
  NodeId node = 1;
  // Ids of this node's inference workers if it has several; empty = `node`.
  std::vector<NodeId> models;
  Incarnation incarnation = 1;
  // Cache-metas of the cluster's file. These, and those that ask later, get every change. Any may
  // lead.
  std::vector<NodeId> cache_metas{1};
  PagePoolSizes pool;
  // Inference workers that keep rows of embedding tables, if the pool has a row area.
  RowLending::Config rows;
  std::size_t requests_max = 4'096;      // that hold grants or wait; further requests get no grants
  std::size_t remote_reads_max = 1'024;  // requests of other nodes among `requests_max`
  Duration read_lease{5'000'000};        // lease of other nodes' reads
  Duration heartbeat{200'000};           // longest interval between two messages to a cache-meta
  Duration report{1'000'000};            // between two reports to the allocator
  std::size_t inventory_part = 4'096;    // blocks in one inventory message
  bool pulls = false;                    // true if there is a port that pulls from other nodes
  // A block that is read while in flight is copied in this many parts per page; PullBlocks::parts.
  std::uint32_t pull_parts = 1;
  double token_bytes = 0;     // bytes of a token's keys and values, for the metric and the scrubber
  Scrub::Config scrub;        // its page_bytes are set by the core
  double check_reads = 0.01;  // fraction of reads whose checksum is verified again
  // Keep its jobs fewer than the port's executors; otherwise saves and loads wait behind pulls.
  Pulls::Bounds pulling;
  bool store = false;  // true if there is a persistent tier
  PersistentTier::Bounds tier;
  Migration::Bounds migration;
};

class KvWorkerCore final : public Core {
 public:
  explicit KvWorkerCore(KvWorkerConfig config);
  void step(Instant now, Event&& event, Effects& effects) override;

  // For tests and the simulation's checkers.
  const PagePool& pool() const { return pool_; }
  std::string check_bounds() const;  // "" or the exceeded bound
  std::size_t waiting() const;       // requests not yet decided
  // Waits for blocks that no request or job makes; 0 unless there is a bug.
  std::size_t waiting_for_nobody() const;
  std::size_t pending() const { return pending_blocks_.size(); }
  // Returns how often the block was wanted lately, as counted by the sketch.
  std::uint32_t times_wanted(const BlockName& name) const;
  // Requests of other nodes that hold pins.
  std::size_t remote_reads() const { return remote_reads_; }
  std::size_t pulls_running() const { return pulls_.running(); }
  std::size_t loads_running() const { return tier_.loads(); }
  PoolReport report() const;
  const RowLending& rows() const { return rows_; }
  const Migration& migration() const { return migration_; }

 private:
  static constexpr std::uint64_t migration_timer = 6;
  using Serial = std::uint64_t;  // of a request, a pull or a job, in order of arrival
  struct Hold {                  // state of one want of a request
    Grant grant = Grant::none;
    bool check = false;                // true if the reader verifies the checksum
    bool waiting = false;              // not yet decided
    const PoolBlock* block = nullptr;  // block that is read, and so pinned; else null
    std::uint64_t generation = 0;
    std::uint64_t early = 0;  // generation that it may read, or has read, while in flight; 0 = none
    bool pulled = false;      // true if the request waited until this block came from another node
  };
  struct Request {
    Address from;
    RequestId id = 0;
    AcquireBlocks ask;        // kept only if a block was not ready at once
    std::vector<Hold> holds;  // parallel to its wants
    std::size_t undecided = 0;
    Instant received;
    Duration pulling{};  // from `received` until the last block pulled for this request arrived
    Instant wait_deadline;
    Instant lease_ends;  // for requests of other nodes
    bool announced = false, answered = false;
    bool offered = false;           // true for an offer of a leaving worker; blocks are only pulled
    bool counts = false;            // true if its wants count as hits and misses
    std::uint64_t user = 0;         // owner of its user blocks, as AreaSavings::user_key; 0 = none
    std::uint32_t user_tokens = 0;  // tokens of user blocks that it wants
    bool remote() const { return from.role == Role::kv_worker; }
  };
  struct Waiter {
    Serial request = 0;
    std::size_t want = 0;
  };
  struct PendingBlock {  // a block that is being written, loaded or pulled
    std::uint64_t generation = 0;
    std::deque<Waiter> waiters;              // earliest first; some may have given up
    std::optional<Instant> pull_asked;       // when the pull was requested, for pulled blocks
    std::optional<std::uint64_t> in_flight;  // checksum, once the block is being copied
  };
  struct InFlightReaders {  // readers of a block that is or was in flight
    BlockName name;
    std::uint32_t readers = 0;
    // True if the copy failed or the block was forgotten: the last reader frees its pages.
    bool over = false;
  };
  // kv_worker_core.cc: events, reports, bounds
  void on_message(Instant now, const Received& received, Effects& effects);
  void on_timer(Instant now, std::uint64_t timer, Effects& effects);
  void on_start(Instant now, Effects& effects);
  void on_request_timer(Instant now, Serial serial, Effects& effects);
  void on_done(Instant now, const JobDone& done, Effects& effects);
  void on_split(const SetSplit& split, Effects& effects);
  void on_report_timer(Instant now, Effects& effects);
  void count_saved(const PoolReport& report, Effects& effects);
  void on_pages_lent(Instant now, Address from, const PagesLent& answer, Effects& effects);
  void lend_rows(Instant now, bool ask, Effects& effects);
  void on_heartbeat_timer(Instant now, Effects& effects);
  StatusReply status(Instant now, RequestId id) const;

  // kv_worker_grants.cc: reads, writes and waits
  void on_acquire(Instant now, Address from, const AcquireBlocks& ask, Effects& effects);
  void refuse(Address from, const AcquireBlocks& ask, Effects& effects) const;
  Serial add_request(Instant now, Address from, const AcquireBlocks& ask);
  std::vector<const PoolBlock*> find_wanted(const AcquireBlocks& ask) const;
  std::vector<std::size_t> decide_present(Instant now, Serial serial, Request& request,
                                          const AcquireBlocks& ask, Effects& effects);
  void use_present(const PoolBlock& block, const AcquireBlocks& ask);
  void decide_absent(Instant now, Serial serial, Request& request, const std::vector<std::size_t>& absent,
                     Effects& effects);
  const PoolBlock* reserve(const Request& request, std::size_t want, bool pulled, bool loaded,
                           Effects& effects);
  Hold read_hold(const PoolBlock& block, bool remote, Effects& effects);
  bool is_sampled();
  BlockGrant grant_of(const Request& request, std::size_t want) const;
  void count_wants(const AcquireBlocks& ask);
  void count_uses_elsewhere(const AcquireBlocks& ask);
  void count_user(Request& request, const BlockWant& want) const;
  const PoolBlock* reserve_in_area(PagePool::Want want, const AcquireBlocks& ask);
  const PoolBlock* reserve_anywhere(PagePool::Want want, const AcquireBlocks& ask);
  bool is_used_more(const PagePool::Want& want, const AcquireBlocks& ask);
  void wait_for(const BlockName& name, Serial serial, std::size_t want, Request& request);
  bool waits(const Waiter& waiter) const;
  bool is_slow_pull(Instant now, const BlockName& name, const Request& request) const;
  void send_grants(const Request& request, Effects& effects) const;
  void answer(Serial serial, Effects& effects);
  void decide(Waiter waiter, Hold hold, Effects& effects);
  void end_wait(Serial serial, Effects& effects);
  void on_release(Instant now, Address from, const ReleaseBlocks& release, Effects& effects);
  Request take(Serial serial);
  void end_request(Instant now, Serial serial, const ReleaseBlocks& release, Effects& effects);
  void end_read(const Request& request, const Hold& hold, const BlockOutcome* outcome, Effects& effects);
  void quarantine(const PoolBlock& block, std::string where, Effects& effects);
  void count_corrupt(const BlockName& name, std::string where, Effects& effects);
  void end_write(const Request& request, std::size_t want, const BlockOutcome* outcome, Effects& effects);
  void finish_block(const BlockName& name, std::uint64_t generation, Effects& effects, bool pulled = false);
  void fail_block(const BlockName& name, std::uint64_t generation, Effects& effects);
  std::deque<Waiter> take_waiters(const BlockName& name, std::uint64_t generation);
  const PoolBlock* find(const BlockName& name) const;

  // kv_worker_pull.cc: blocks of other nodes
  bool may_pull(Instant now, const BlockWant& want, std::size_t pulls_more) const;
  void ask_owner(Instant now, const Request& request, NodeId node,
                 const std::vector<const PoolBlock*>& blocks, Effects& effects);
  void on_acquired(Instant now, Address from, const BlocksAcquired& acquired, Effects& effects);
  void keep_granted(Pull& pull, const BlocksAcquired& acquired, Effects& effects);
  void keep_awaited(Pull& pull, Effects& effects);
  void run_pulls(Instant now, Effects& effects);
  void run_pull(Instant now, Serial serial, Effects& effects);
  void note_pulled(Instant now, const BlockName& name);
  void on_pulled(Instant now, Serial serial, const Pull& pull, const JobResult& result, Effects& effects);
  void end_pull_entry(const PullEntry& in_flight, bool arrived, Effects& effects);
  void give_up(Instant now, Serial serial, Effects& effects);
  void on_pull_timer(Instant now, Serial serial, Effects& effects);
  void lose(Instant now, NodeId node, Effects& effects);

  // kv_worker_migration.cc: migration of user blocks when a worker leaves
  void on_drain(Instant now, Address from, const Drain& drain, Effects& effects);
  void begin_migration(Instant now, const Drain& drain, Effects& effects);
  void advance_migration(Instant now, Effects& effects);
  bool is_offer(Address from, const AcquireBlocks& ask) const;
  const PoolBlock* reserve_offered(PagePool::Want want, const AcquireBlocks& ask);

  // kv_worker_in_flight.cc: reads of blocks in flight
  void announce_in_flight(Serial serial, Effects& effects);
  bool awaits_in_flight(const Request& request) const;
  bool has_in_flight_reader(const Pull& pull) const;
  void carry_in_flight_read(const Hold& before, Hold& after);
  void end_in_flight_read(std::uint64_t generation);
  bool keep_for_readers(const PullEntry& in_flight);

  // kv_worker_scrub.cc: repeated checksum verification
  void scrub(Instant now, Effects& effects);
  void on_scrubbed(Instant now, const JobResult& result, Effects& effects);

  // kv_worker_index.cc: cache-metas
  void on_cache_meta(const Received& received, Effects& effects);
  void on_inventory(Address from, const InventoryRequest& request, Effects& effects) const;
  void on_forget(Address from, const Forget& forget, Effects& effects);
  void report_changes(Instant now, Effects& effects);
  CacheChanges take_changes(Effects& effects);
  void report_pages(Effects& effects);
  bool hear_cache_meta(const Received& received);

  // kv_worker_store.cc: the persistent tier
  using StoreTransfer = PersistentTier::StoreTransfer;
  void on_store_done(Instant now, const JobDone& done, Effects& effects);
  void on_listed(Instant now, const JobResult& result, Effects& effects);
  void on_loaded(Instant now, const std::vector<StoreTransfer>& loads, const JobResult& result,
                 Effects& effects);
  void on_saved(Instant now, const StoreTransfer& save, const JobResult& result, Effects& effects);
  void on_not_saved(Instant now, const StoreTransfer& save, const BlockSaveResult& saved, Effects& effects);
  void on_erased(Instant now, const std::vector<BlockName>& names, const JobResult& result, Effects& effects);
  void list_stored(Effects& effects);
  void load(const std::vector<const PoolBlock*>& blocks, bool warm, Effects& effects);
  void load_warm(Effects& effects);
  std::vector<const PoolBlock*> reserve_warm();
  void advance_store(Instant now, Effects& effects);
  void save_more(Instant now, Effects& effects);
  void evict_stored(Effects& effects);
  void erase_stored(std::vector<BlockName> names, Effects& effects);
  void back_off_store(Instant now, const std::string& why, Effects& effects);
  void report_back_off(Instant till, const std::string& why, Effects& effects);

  Address allocator() const { return {config_.node, Role::allocator}; }
  bool is_inference_worker(Address address) const;  // of this node
  std::pair<Address, RequestId> key_of(Address from, RequestId id) const;

  KvWorkerConfig config_;
  PagePool pool_;
  PersistentTier tier_;
  Serial next_serial_;  // numbers below its first value are named timers
  std::map<Serial, Request> requests_;
  std::map<std::pair<Address, RequestId>, Serial> serials_;
  std::size_t remote_reads_ = 0;  // requests of other nodes in requests_
  // Counts wanted blocks; exists once a request wanted hotter blocks kept (Retention::keep_hotter).
  std::optional<placement::FrequencySketch> sketch_;
  RowLending rows_;
  // Block positions before the boundary between areas began to move.
  std::optional<PagePool::PageHashes> boundary_moves_;
  std::uint64_t boundary_bytes_copied_ = 0;
  Scrub scrub_;
  Serial scrub_job_ = 0;       // 0 = not running
  std::uint64_t samples_ = 0;  // state of the generator that samples reads to verify
  std::map<BlockName, PendingBlock> pending_blocks_;
  std::map<std::uint64_t, InFlightReaders> in_flight_readers_;  // by generation
  Pulls pulls_;
  Subscribers metas_;
  Migration migration_;
  Migration::Counts counted_migration_;  // counts as of the last metrics update
  std::uint64_t blocks_pulled_ = 0, blocks_corrupt_ = 0;
  bool ready_ = false;
  std::uint64_t split_epoch_ = 0;   // epoch of the allocator's split that is in force
  std::uint64_t leader_token_ = 0;  // highest leader token seen
  bool leader_heard_ = false;       // true once a LeaderBeat arrived since the start
  std::vector<AreaReport> wanted_;  // hits and misses per area
  AreaSavings savings_;
  std::vector<double> counted_saved_us_;  // per area, as of the last metrics update
  std::vector<BlockEntry> added_;         // blocks added in this step
  std::vector<BlockName> refused_;        // user blocks refused in this step
  CacheChanges sent_changes_;             // last changes sent, without their blocks
  Instant changes_sent_at_;
  bool beat_due_ = false;
  // Per area, size and used pages as of the last metrics update.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> counted_pages_;
};

}  // namespace troupe::actors
