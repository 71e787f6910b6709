#pragma once
// The KV-cache worker of one node owns the node's pages: it pins what a request may reuse, reserves what the
// request will compute, evicts to make room, and keeps item blocks in a persistent tier. It also tells
// cache-meta what comes and goes. Start with `on_acquire` and `on_release`.
//
// A block is computed by one request at a time. Whoever else asks for it waits until it is there, until the
// writer gives up (then the first who waits becomes the writer), or until its own patience ends (then it
// computes for itself). All blocks of a request are decided in the one step in which it arrives, so whoever
// waits does so for a request that arrived earlier; and a writer's heir is the earliest of those who waited,
// so this stays true. The earliest of all waits for nobody: there is no circle, hence no deadlock.
//
// A grant ends with the request's release, or with its lease: the holder has to stop using its pages before
// that, judged by its own clock (promise 3), so that a lost release costs pages for a while but never bytes.
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/kv_worker/stored_blocks.h"
#include "runtime/core.h"
#include "runtime/page_pool.h"

namespace troupe::actors {

struct KvWorkerConfig {
  NodeId node = 1;
  NodeId cache_meta_node = 1;
  PagePoolSizes pool;
  std::size_t requests_max = 4'096;          // that hold grants or wait; more are granted nothing
  Duration lease{30'000'000};                // added to a request's patience; see above
  Duration report{1'000'000};                // between two reports
  std::size_t announced_per_report = 4'096;  // blocks told to cache-meta again, in turn, in case it lost them
  bool store = false;                        // is there a persistent tier?
  std::size_t stored_blocks_max = 4'000'000;
  std::size_t saves_waiting_max = 65'536;
  std::size_t saves_running_max = 2;
  std::size_t loads_running_max = 2;  // of the warm start
  std::size_t load_blocks_max = 64;   // per load of the warm start
  Duration store_rest{5'000'000};     // the tier is left alone for so long after it failed
};

class KvWorkerCore final : public Core {
 public:
  explicit KvWorkerCore(KvWorkerConfig config);
  void step(Instant now, const Event& event, Effects& effects) override;

  const PagePool& pool() const { return pool_; }  // for tests: the invariants

 private:
  using Serial = std::uint64_t;  // of a request or a job, in order of arrival
  struct Request {
    Address from;
    AcquireBlocks ask;
    std::vector<BlockGrant> grants;  // parallel to ask.wants
    std::vector<bool> waiting;       // for each want: not decided yet
    std::size_t undecided = 0;
    Instant patience_ends, lease_ends;
    bool answered = false;
  };
  struct Waiter {
    Serial request = 0;
    std::size_t want = 0;
  };
  struct Making {  // a block that is being written or loaded
    std::uint64_t generation = 0;
    std::deque<Waiter> waiters;  // earliest first; some may have given up
  };
  struct Moving {  // between the pool and the persistent tier
    StoredBlock block;
    std::uint64_t generation = 0;
  };

  // kv_worker_core.cc: the conversation
  void on_message(Instant now, const Received& received, Effects& effects);
  void on_timer(Instant now, std::uint64_t timer, Effects& effects);
  void on_acquire(Instant now, Address from, const AcquireBlocks& ask, Effects& effects);
  void decide_present(Serial serial, Request& request, Effects& effects);
  void decide_absent(Instant now, Serial serial, Request& request, Effects& effects);
  const PoolBlock* reserve(const Request& request, std::size_t want, bool loading, Effects& effects);
  bool waits(const Waiter& waiter) const;
  void answer(Serial serial, Effects& effects);
  void decide(Waiter waiter, BlockGrant grant, Effects& effects);
  void end_patience(Serial serial, Effects& effects);
  void on_release(Address from, const ReleaseBlocks& release, Effects& effects);
  void end_request(Serial serial, const ReleaseBlocks& release, Effects& effects);
  void end_read(const BlockName& name, const BlockGrant& grant, const BlockOutcome* outcome,
                Effects& effects);
  void end_write(const BlockWant& want, const BlockGrant& grant, const BlockOutcome* outcome,
                 Effects& effects);
  void made(const BlockName& name, std::uint64_t generation, Effects& effects);
  void not_made(const BlockName& name, std::uint64_t generation, Effects& effects);
  std::deque<Waiter> stop_making(const BlockName& name, std::uint64_t generation);
  void on_forget(const Forget& forget, Effects& effects);
  void on_split(const SetSplit& split, Effects& effects);
  void on_report_timer(Instant now, Effects& effects);
  void lose(NodeId node, Effects& effects);
  void announce(const PoolBlock& block, Effects& effects) const;
  void announce_again(Effects& effects);
  void tell_changes(Effects& effects);
  PoolReport report() const;
  UserArea user_area() const;
  StatusReply status(Instant now, RequestId id) const;

  // kv_worker_store.cc: the persistent tier
  void on_done(Instant now, const Done& done, Effects& effects);
  void on_listed(Instant now, const JobResult& result, Effects& effects);
  void on_loaded(Instant now, const std::vector<Moving>& loads, const JobResult& result, Effects& effects);
  void on_saved(Instant now, const Moving& save, const JobResult& result, Effects& effects);
  Serial load(const std::vector<const PoolBlock*>& blocks, Effects& effects);
  void load_warm(Effects& effects);
  std::vector<const PoolBlock*> reserve_warm();
  void save_more(Instant now, Effects& effects);
  void erase_stored(const std::vector<BlockName>& names, Effects& effects);
  void rest_store(Instant now, const std::string& why, Effects& effects);
  void tell_rest(Instant now, const std::string& why, Effects& effects);

  Address cache_meta() const { return {config_.cache_meta_node, Role::cache_meta}; }
  Address allocator() const { return {config_.node, Role::allocator}; }

  KvWorkerConfig config_;
  PagePool pool_;
  StoredBlocks stored_;
  Serial next_serial_ = 16;  // below are the timers with a name
  std::map<Serial, Request> requests_;
  std::map<std::pair<Address, RequestId>, Serial> serials_;
  std::map<BlockName, Making> making_;
  std::map<Serial, std::vector<Moving>> loads_;  // running jobs
  std::map<Serial, Moving> saves_;               // running jobs; the block is pinned
  std::set<Serial> warm_loads_;                  // those of `loads_` that belong to the warm start
  Serial list_job_ = 0;                          // 0: not running
  std::deque<BlockName> warm_;                   // stored blocks that the warm start has still to load
  bool ready_ = false;
  std::uint64_t split_epoch_ = 0;
  std::vector<BlockName> inventory_;  // what is still to be announced again, from the back
  UserArea told_area_;                // as last sent
  PoolReport told_pages_;             // as last counted
};

}  // namespace troupe::actors
