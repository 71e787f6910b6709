#pragma once
// The state of the KV-cache worker's persistent tier: its blocks, its running and waiting jobs
// (list, load, save, erase), and until when the disk is left alone after a failure. It does not
// access the pool, and it starts no jobs but erasures; tier_jobs.h and tier_loads.h act on its
// answers. The store port holds the bytes.
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/kv_worker/kv_worker_timer.h"
#include "actors/kv_worker/stored_blocks.h"
#include "runtime/actor/core.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

class PersistentTier {
 public:
  struct Bounds {
    std::size_t blocks_max = 4'000'000;  // known to be stored
    std::size_t saves_waiting_max = 65'536, saves_running_max = 2;
    std::size_t warm_loads_max = 2;           // concurrent load jobs of the warm start
    std::size_t warm_load_blocks = 64;        // blocks per warm-start job
    std::size_t evict_blocks = 64;            // erased from a full tier before a save is tried again
    std::size_t erases_waiting_max = 65'536;  // names whose erasure failed
    Duration back_off{5'000'000};             // back-off after a failure
  };
  explicit PersistentTier(const Bounds& bounds) : bounds_(bounds), stored_(bounds.blocks_max) {}

  const StoredBlocks& stored() const { return stored_; }
  // Returns true if the same block is stored and may be loaded now.
  bool may_load(Instant now, const BlockWant& want) const;

  // ---- jobs ----

  struct StoreTransfer {  // a block moving between the pool and the tier
    StoredBlock block;
    std::uint64_t generation = 0;
    const PoolBlock* pinned = nullptr;  // while it is saved
  };
  struct ListJob {};
  struct LoadJob {
    std::vector<StoreTransfer> blocks;
    bool warm = false;  // part of the warm start
  };
  struct SaveJob : StoreTransfer {};
  struct EraseJob {
    std::vector<BlockName> names;
  };
  using Job = std::variant<ListJob, LoadJob, SaveJob, EraseJob>;
  // Registers a started job. Names to be erased count as erased from then on.
  void begin(Serial serial, Job job);
  std::optional<Job> end(Serial serial);  // nullopt: not a job of the tier
  // Starts a job that erases these blocks.
  void erase(std::vector<BlockName> names, Serial job, Effects& effects);
  std::size_t loads() const { return running<LoadJob>(); }
  std::size_t saves() const { return saves_.size() + running<SaveJob>(); }  // waiting and running

  // ---- the list, and the warm start ----

  // Adds the listed blocks, except those that are being erased. The warm start loads the blocks of
  // the first list, system prompts first, because every item block needs them.
  void note_list(StoredList&& list);
  void note_list_failed() { list_again_ = true; }
  bool take_list_retry(Instant now);  // true once, when a failed listing may be repeated
  // Returns the next block for the warm start to load; null if there is none.
  const StoredBlock* next_warm();
  bool may_warm() const { return warm_loads_ < bounds_.warm_loads_max && !warm_.empty(); }
  std::size_t warm_load_blocks() const { return bounds_.warm_load_blocks; }
  void stop_warm() { warm_.clear(); }
  // Returns true once, when the warm start has ended. The worker is not ready before.
  bool is_warm();
  bool was_warm() const { return warm_done_; }

  // ---- saves ----

  // Queues a save. A full queue drops it: the block is saved when it is next computed.
  void want_save(const BlockName& name);
  // First come, first served; nullopt if nothing may be saved now.
  std::optional<BlockName> next_save(Instant now);
  void note_saved(StoredBlock block);
  // The store has not got this block, or another one by that name. A block saved since stays known.
  void note_gone(const StoredBlock& block);
  // Returns the blocks to erase from a full tier: the oldest known, except those to be kept.
  std::vector<BlockName> oldest(const std::function<bool(const BlockName&)>& is_kept) const {
    return stored_.oldest(bounds_.evict_blocks, is_kept);
  }

  // ---- erasures that failed ----

  // Queues failed erasures for a retry. Erasing a block twice is harmless; erasing one that was
  // saved again is not.
  void note_not_erased(const std::vector<BlockName>& names);
  // For one job; empty if no erasure may be retried now.
  std::vector<BlockName> next_erasures(Instant now);

  // ---- back-off: each returns when it ends; TierJobs sets a timer for it ----

  Instant back_off(Instant now);
  // Stops saves only: a tier that is full may still be read.
  Instant back_off_saves(Instant now);
  bool saves_in_back_off(Instant now) const { return now < saves_from_; }
  bool is_in_back_off(Instant now) const { return now < saves_from_ || now < loads_from_; }
  Duration back_off_time() const { return bounds_.back_off; }

  std::string check_bounds(std::size_t pool_pages) const;  // "" or the exceeded bound

 private:
  template <class Kind>
  std::size_t running() const {
    return running_[Job(Kind{}).index()];
  }

  Bounds bounds_;
  StoredBlocks stored_;
  std::map<Serial, Job> jobs_;                                   // running jobs
  std::array<std::size_t, std::variant_size_v<Job>> running_{};  // number of running jobs by kind
  std::size_t warm_loads_ = 0;                                   // running loads of the warm start
  bool list_again_ = false;
  bool warm_done_ = false;
  std::deque<BlockName> warm_;  // still to be loaded by the warm start
  std::deque<BlockName> saves_, erase_again_;
  Instant saves_from_, loads_from_;
};

}  // namespace troupe::actors
