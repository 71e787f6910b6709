#pragma once
// The KV-cache worker's persistent tier: which blocks it has, what of it is being listed, loaded, saved and
// erased, what waits for that, and until when the disk is left alone because it failed. It knows no pool and
// starts nothing; the core does what it says. The bytes are the store port's.
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/kv_worker/stored_blocks.h"
#include "runtime/actor/core.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

class PersistentTier {
 public:
  using Serial = std::uint64_t;  // of a job
  struct Bounds {
    std::size_t blocks_max = 4'000'000;  // known to be stored
    std::size_t saves_waiting_max = 65'536, saves_running_max = 2;
    std::size_t warm_loads_max = 2;           // jobs of the warm start at a time
    std::size_t warm_load_blocks = 64;        // in each of them
    std::size_t make_room_blocks = 64;        // erased from a tier that is full, before a save is tried again
    std::size_t erases_waiting_max = 65'536;  // names whose erasure failed
    Duration rest{5'000'000};                 // it is left alone for so long after it failed
  };
  explicit PersistentTier(const Bounds& bounds) : bounds_(bounds), stored_(bounds.blocks_max) {}

  const StoredBlocks& stored() const { return stored_; }
  // Is that very block there, and may it be loaded now?
  bool may_load(Instant now, const BlockWant& want) const;

  // ---- jobs ----

  struct Moving {  // between the pool and the tier
    StoredBlock block;
    std::uint64_t generation = 0;
    const PoolBlock* pinned = nullptr;  // while it is saved
  };
  struct Listing {};
  struct Loading {
    std::vector<Moving> blocks;
    bool warm = false;  // of the warm start
  };
  struct Saving : Moving {};
  struct Erasing {
    std::vector<BlockName> names;
  };
  using Job = std::variant<Listing, Loading, Saving, Erasing>;
  // What is to be erased counts as erased from then on.
  void begin(Serial serial, Job job);
  std::optional<Job> end(Serial serial);  // none: no job of the tier
  std::size_t loads() const { return running<Loading>(); }
  std::size_t saves() const { return saves_.size() + running<Saving>(); }  // with those that wait

  // ---- the list, and the warm start ----

  // What is just being erased is not believed to be there. Of the first list the warm start loads, system
  // prompts first: every item's block needs them.
  void note_list(const StoredList& list);
  void note_no_list() { list_again_ = true; }
  bool takes_list(Instant now);  // true, once, when one that failed may be asked for again
  // The next block that the warm start has to load, if another load of it may begin; null: none.
  const StoredBlock* next_warm();
  bool may_warm() const { return warm_loads_ < bounds_.warm_loads_max && !warm_.empty(); }
  std::size_t warm_load_blocks() const { return bounds_.warm_load_blocks; }
  void stop_warm() { warm_.clear(); }
  // When it has ended, which it does once; before, the worker is not ready.
  bool is_warm();
  bool was_warm() const { return warm_done_; }

  // ---- saves ----

  // A full queue skips the newcomer: it is saved when next computed.
  void want_save(const BlockName& name);
  std::optional<BlockName> next_save(Instant now);  // first come first; none: nothing may be saved now
  void note_saved(const StoredBlock& block);
  // To make room: the first that became known, but for those that are to be kept.
  std::vector<BlockName> oldest(const std::function<bool(const BlockName&)>& is_kept) const {
    return stored_.oldest(bounds_.make_room_blocks, is_kept);
  }

  // ---- erasures that failed ----

  // Erasing a block twice is harmless, erasing one that was saved again is not.
  void note_not_erased(const std::vector<BlockName>& names);
  std::vector<BlockName> next_erasures(Instant now);  // for one job; none: nothing may be erased again now

  // ---- rests: until then; the core wakes up for it ----

  Instant rest(Instant now);
  // A tier that takes nothing more, being full, may still give back what it has.
  Instant rest_saves(Instant now);
  bool saves_rest(Instant now) const { return now < saves_from_; }
  bool rests(Instant now) const { return now < saves_from_ || now < loads_from_; }
  Duration rest_time() const { return bounds_.rest; }

  std::string check_bounds(std::size_t pool_pages) const;  // empty, or what exceeds its bound

 private:
  template <class Kind>
  std::size_t running() const {
    return running_[Job(Kind{}).index()];
  }

  Bounds bounds_;
  StoredBlocks stored_;
  std::map<Serial, Job> jobs_;                                   // that run
  std::array<std::size_t, std::variant_size_v<Job>> running_{};  // of those, by kind
  std::size_t warm_loads_ = 0;                                   // of those
  bool list_again_ = false;
  bool warm_done_ = false;
  std::deque<BlockName> warm_;  // that the warm start has still to load
  std::deque<BlockName> saves_, erase_again_;
  Instant saves_from_, loads_from_;
};

}  // namespace troupe::actors
