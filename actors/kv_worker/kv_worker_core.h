#pragma once
// The KV-cache worker of one node owns the node's pages: it pins what a request may reuse, reserves what the
// request will compute, pulls what another node has, evicts to make room, and keeps item blocks in a
// persistent tier. It also tells every cache-meta what comes and goes. Start with `on_acquire` and
// `on_release`.
//
// A block is computed by one request at a time. Whoever else asks for it waits until it is there, until the
// writer gives up (then the first who waits becomes the writer), or until its own patience ends (then it
// computes for itself). All blocks of a request are decided in the one step in which it arrives, so whoever
// waits does so for a request that arrived earlier; and a writer's heir is the earliest of those who waited,
// so this stays true. The earliest of all waits for nobody: there is no circle, hence no deadlock. A pull
// waits for another node's worker, which answers at once, and only for a time.
//
// Who asks `early` is told, too, when the last block that it waits for begins to come from another node, and
// may then read that block's pages behind the copy (runtime/pool/page_arrivals.h). It waits on, and gets its
// answer when the copy has ended; until it lets go the pages are nobody else's, however that was
// (kv_worker_early.cc).
//
// A worker that leaves the cluster for good offers its users' blocks to those that stay, which pull them
// (kv_worker_hand_on.cc).
//
// Grants to the inference worker of this node last until they are released: both are one process. Other
// nodes' KV-cache workers get pins with a lease. They count it from their question, this worker from its
// receipt and a tenth longer: as long as clocks run within 10 % of each other, no page changes hands under a
// reader (promise 3), whatever is lost on the way. A lost node keeps its pins until then: it may only be cut
// off.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/kv_worker/area_savings.h"
#include "actors/kv_worker/hand_on.h"
#include "actors/kv_worker/persistent_tier.h"
#include "actors/kv_worker/pulls.h"
#include "actors/kv_worker/row_lending.h"
#include "actors/kv_worker/scrub.h"
#include "placement/popularity/frequency_sketch.h"
#include "runtime/actor/audience.h"
#include "runtime/actor/core.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

struct KvWorkerConfig {
  NodeId node = 1;
  std::vector<NodeId> models;  // numbers of this node's inference workers, if it has several; none: `node`
  Incarnation incarnation = 1;
  std::vector<NodeId> cache_metas{
      1};  // of the cluster's file: all are told of every change, and those that ask; any of them may lead
  PagePoolSizes pool;
  RowLending::Config
      rows;  // inference workers that keep rows of embedding tables, where the pool has an area for them
  std::size_t requests_max = 4'096;      // that hold grants or wait; more are granted nothing
  std::size_t remote_reads_max = 1'024;  // of those, the ones of other nodes
  Duration read_lease{5'000'000};        // of other nodes' reads
  Duration heartbeat{200'000};           // cache-metas hear from this worker at least so often
  Duration report{1'000'000};            // between two reports to the allocator
  std::size_t inventory_part = 4'096;    // blocks in one message
  bool pulls = false;                    // is there a port that pulls from other nodes?
  std::uint32_t pull_parts = 1;  // of a page, of what somebody reads while it comes; PullBlocks::parts
  double token_bytes = 0;        // of the keys and values of a token, for the metric and the scrubber
  Scrub::Config scrub;           // its page_bytes are the core's to say
  double check_reads = 0.01;     // share of the reads that are checked again
  Pulls::Bounds
      pulling;         // its jobs are fewer than the port has lanes, else saves and loads wait behind pulls
  bool store = false;  // is there a persistent tier?
  PersistentTier::Bounds tier;
  HandOn::Bounds hand_on;
};

class KvWorkerCore final : public Core {
 public:
  explicit KvWorkerCore(KvWorkerConfig config);
  void step(Instant now, const Event& event, Effects& effects) override;

  // For tests and the simulation's checkers.
  const PagePool& pool() const { return pool_; }
  std::string check_bounds() const;        // empty, or what exceeds its bound
  std::size_t waiting() const;             // requests that are not decided yet
  std::size_t waiting_for_nobody() const;  // of those, waits for blocks that nobody makes
  std::size_t making() const { return making_.size(); }
  // Lately, as far as it is counted.
  std::uint32_t times_wanted(const BlockName& name) const;
  std::size_t remote_reads() const { return remote_reads_; }  // requests of other nodes that hold pins
  std::size_t pulls_running() const { return pulls_.running(); }
  std::size_t loads_running() const { return tier_.loads(); }
  PoolReport report() const;
  const RowLending& rows() const { return rows_; }
  const HandOn& handing_on() const { return hand_on_; }

 private:
  static constexpr std::uint64_t hand_on_timer = 6;
  using Serial = std::uint64_t;  // of a request, a pull or a job, in order of arrival
  struct Hold {                  // what a request has of a block
    Grant grant = Grant::none;
    bool check = false;                // its reader compares the bytes with the checksum
    bool waiting = false;              // not decided yet
    const PoolBlock* block = nullptr;  // while it is read: pinned
    std::uint64_t generation = 0;
    std::uint64_t early = 0;  // of what it may read while it comes, or did; 0: nothing
    bool pulled = false;      // it waited until this came from another node
  };
  struct Request {
    Address from;
    RequestId id = 0;
    AcquireBlocks ask;        // kept only where a block was not there at once
    std::vector<Hold> holds;  // parallel to its wants
    std::size_t undecided = 0;
    Instant received;
    Duration pulling{};  // from then until the last block that was pulled for it was here
    Instant patience_ends;
    Instant lease_ends;  // of a remote one
    bool told_early = false, answered = false;
    bool offered = false;           // by a worker that leaves: it only takes what it can pull
    bool counts = false;            // its wants are hits and misses
    std::uint64_t user = 0;         // whose it is, as AreaSavings::user_key
    std::uint32_t user_tokens = 0;  // that it wants
    bool remote() const { return from.role == Role::kv_worker; }
  };
  struct Waiter {
    Serial request = 0;
    std::size_t want = 0;
  };
  struct Making {  // a block that is being written, loaded or pulled
    std::uint64_t generation = 0;
    std::deque<Waiter> waiters;           // earliest first; some may have given up
    std::optional<Instant> pull_asked;    // if it is pulled
    std::optional<std::uint64_t> coming;  // its checksum, once it is being copied
  };
  struct EarlyReads {  // of a block that comes, or did not
    BlockName name;
    std::uint32_t readers = 0;
    bool over = false;  // it did not, or nobody may find it: its pages go with the last reader
  };
  // kv_worker_core.cc: what arrives, reports, bounds
  void on_message(Instant now, const Received& received, Effects& effects);
  void on_timer(Instant now, std::uint64_t timer, Effects& effects);
  void on_start(Instant now, Effects& effects);
  void on_request_timer(Instant now, Serial serial, Effects& effects);
  void on_done(Instant now, const Done& done, Effects& effects);
  void on_split(const SetSplit& split, Effects& effects);
  void on_report_timer(Instant now, Effects& effects);
  void count_saved(const PoolReport& report, Effects& effects);
  void on_pages_lent(Instant now, Address from, const PagesLent& answer, Effects& effects);
  void lend_rows(Instant now, bool ask, Effects& effects);
  void on_heartbeat_timer(Instant now, Effects& effects);
  StatusReply status(Instant now, RequestId id) const;

  // kv_worker_grants.cc: who reads, writes or waits
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
  void count_elsewhere(const AcquireBlocks& ask);
  void count_user(Request& request, const BlockWant& want) const;
  const PoolBlock* reserve_in_area(PagePool::Want want, const AcquireBlocks& ask);
  const PoolBlock* reserve_anywhere(PagePool::Want want, const AcquireBlocks& ask);
  bool is_hotter(const PagePool::Want& want, const AcquireBlocks& ask);
  void wait_for(const BlockName& name, Serial serial, std::size_t want, Request& request);
  bool waits(const Waiter& waiter) const;
  bool is_slow_pull(Instant now, const BlockName& name, const Request& request) const;
  void send_grants(const Request& request, Effects& effects) const;
  void answer(Serial serial, Effects& effects);
  void decide(Waiter waiter, Hold hold, Effects& effects);
  void end_patience(Serial serial, Effects& effects);
  void on_release(Instant now, Address from, const ReleaseBlocks& release, Effects& effects);
  Request take(Serial serial);
  void end_request(Instant now, Serial serial, const ReleaseBlocks& release, Effects& effects);
  void end_read(const Request& request, const Hold& hold, const BlockOutcome* outcome, Effects& effects);
  void quarantine(const PoolBlock& block, std::string where, Effects& effects);
  void count_corrupt(const BlockName& name, std::string where, Effects& effects);
  void end_write(const Request& request, std::size_t want, const BlockOutcome* outcome, Effects& effects);
  void made(const BlockName& name, std::uint64_t generation, Effects& effects, bool pulled = false);
  void not_made(const BlockName& name, std::uint64_t generation, Effects& effects);
  std::deque<Waiter> stop_making(const BlockName& name, std::uint64_t generation);
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
  void end_coming(const ComingBlock& coming, bool arrived, Effects& effects);
  void give_up(Instant now, Serial serial, Effects& effects);
  void on_pull_timer(Instant now, Serial serial, Effects& effects);
  void lose(Instant now, NodeId node, Effects& effects);

  // kv_worker_hand_on.cc: users' blocks of a worker that leaves
  void on_drain(Instant now, Address from, const Drain& drain, Effects& effects);
  void begin_hand_on(Instant now, const Drain& drain, Effects& effects);
  void hand_on(Instant now, Effects& effects);
  bool is_offer(Address from, const AcquireBlocks& ask) const;
  const PoolBlock* reserve_offered(PagePool::Want want, const AcquireBlocks& ask);

  // kv_worker_early.cc: blocks that are read while they come
  void tell_coming(Serial serial, Effects& effects);
  bool awaits_coming(const Request& request) const;
  bool has_early_waiter(const Pull& pull) const;
  void carry_early(const Hold& before, Hold& after);
  void end_early_read(std::uint64_t generation);
  bool keep_for_readers(const ComingBlock& coming);

  // kv_worker_scrub.cc: blocks that are checked again
  void scrub(Instant now, Effects& effects);
  void on_scrubbed(Instant now, const JobResult& result, Effects& effects);

  // kv_worker_index.cc: cache-metas
  void on_cache_meta(const Received& received, Effects& effects);
  void on_inventory(Address from, const InventoryRequest& request, Effects& effects) const;
  void on_forget(Address from, const Forget& forget, Effects& effects);
  void tell_changes(Instant now, Effects& effects);
  CacheChanges take_changes(Effects& effects);
  void tell_pages(Effects& effects);
  bool hear_cache_meta(const Received& received);

  // kv_worker_store.cc: the persistent tier
  using Moving = PersistentTier::Moving;
  void on_store_done(Instant now, const Done& done, Effects& effects);
  void on_listed(Instant now, const JobResult& result, Effects& effects);
  void on_loaded(Instant now, const std::vector<Moving>& loads, const JobResult& result, Effects& effects);
  void on_saved(Instant now, const Moving& save, const JobResult& result, Effects& effects);
  void on_not_saved(Instant now, const Moving& save, const Saved& saved, Effects& effects);
  void on_erased(Instant now, const std::vector<BlockName>& names, const JobResult& result, Effects& effects);
  void list_stored(Effects& effects);
  void load(const std::vector<const PoolBlock*>& blocks, bool warm, Effects& effects);
  void load_warm(Effects& effects);
  std::vector<const PoolBlock*> reserve_warm();
  void tend_store(Instant now, Effects& effects);
  void save_more(Instant now, Effects& effects);
  void make_room(Effects& effects);
  void erase_stored(std::vector<BlockName> names, Effects& effects);
  void rest_store(Instant now, const std::string& why, Effects& effects);
  void tell_rest(Instant till, const std::string& why, Effects& effects);

  Address allocator() const { return {config_.node, Role::allocator}; }
  bool is_inference_worker(Address address) const;  // of this node
  std::pair<Address, RequestId> key_of(Address from, RequestId id) const;

  KvWorkerConfig config_;
  PagePool pool_;
  PersistentTier tier_;
  Serial next_serial_;  // below are the timers with a name
  std::map<Serial, Request> requests_;
  std::map<std::pair<Address, RequestId>, Serial> serials_;
  std::size_t remote_reads_ = 0;                      // of requests_
  std::optional<placement::FrequencySketch> sketch_;  // of what was wanted; from the first `keep_hotter` on
  RowLending rows_;
  std::optional<PagePool::Places> boundary_moves_;  // where blocks were when it began to
  std::uint64_t boundary_bytes_copied_ = 0;
  Scrub scrub_;
  Serial scrub_job_ = 0;       // 0: not running
  std::uint64_t samples_ = 0;  // the state of what chooses reads to be checked
  std::map<BlockName, Making> making_;
  std::map<std::uint64_t, EarlyReads> early_reads_;  // by generation
  Pulls pulls_;
  Audience metas_;
  HandOn hand_on_;
  HandOn::Counts told_handed_on_;  // as last counted
  std::uint64_t blocks_pulled_ = 0, blocks_corrupt_ = 0;
  bool ready_ = false;
  std::uint64_t split_epoch_ = 0;
  std::uint64_t leader_token_ = 0;  // the highest heard of
  bool leader_heard_ = false;       // a LeaderBeat, since the start
  std::vector<AreaReport> wanted_;  // hits and misses, by area
  AreaSavings savings_;
  std::vector<double> told_saved_us_;  // of each area, as last counted
  std::vector<BlockEntry> added_;      // in this step
  std::vector<BlockName> refused_;     // in this step: users' blocks
  CacheChanges told_;                  // the last one, without its blocks
  Instant told_at_;
  bool beat_due_ = false;
  std::vector<std::pair<std::uint32_t, std::uint32_t>>
      told_pages_;  // of each area, and used: as last counted
};

}  // namespace troupe::actors
