#pragma once
// What the KV-cache worker knows of its persistent tier: which blocks are in it, which wait to be written,
// and until when the disk is to be left alone because it failed. The bytes are the store port's.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/planted.h"
#include "runtime/actor/ports.h"

namespace troupe::actors {

// Is what was found by a name the block of that name? Containers may not see the whole of it.
inline bool same_block(const BlockName& found, const BlockName& name) {
  return identical(found, name) || planted(Bug::skip_identity_check);
}

class StoredBlocks {
 public:
  struct Bounds {
    std::size_t blocks_max = 0;  // known blocks
    std::size_t saves_waiting_max = 0;
  };
  explicit StoredBlocks(Bounds bounds) : bounds_(bounds) {}

  void add(const StoredBlock& block);  // without effect if there is no room for one more
  void erase(const BlockName& name);
  const StoredBlock* find(
      const BlockName& name) const;  // null if unknown; the same block, not only its place
  std::vector<BlockName> names_of(SegmentKind kind, const std::string& owner) const;
  // The first `count` in the order in which they became known, but for those that are to be kept.
  std::vector<BlockName> oldest(std::size_t count,
                                const std::function<bool(const BlockName&)>& is_kept) const;
  std::size_t blocks() const { return blocks_.size(); }
  bool full() const { return blocks_.size() >= bounds_.blocks_max; }

  // Names of blocks to be saved, first come first. A full queue skips the newcomer: it is saved when next
  // computed.
  void want_save(const BlockName& name);
  bool next_save(BlockName& name);  // false if none waits
  std::size_t saves_waiting() const { return saves_.size(); }

  // A tier that takes nothing more, being full, may still give back what it has.
  void rest_saves(Instant until) { saves_from_ = std::max(saves_from_, until); }
  void rest(Instant until) { saves_from_ = loads_from_ = std::max(loads_from_, until); }
  bool saves_rest(Instant now) const { return now < saves_from_; }
  bool loads_rest(Instant now) const { return now < loads_from_; }

 private:
  Bounds bounds_;
  struct Known {
    StoredBlock block;
    std::uint64_t order = 0;  // in which it became known
  };
  std::map<BlockName, Known> blocks_;
  std::map<std::uint64_t, BlockName> by_order_;
  std::uint64_t last_order_ = 0;
  std::map<std::pair<SegmentKind, std::string>, std::set<BlockName>> owners_;
  std::deque<BlockName> saves_;
  Instant saves_from_, loads_from_;
};

}  // namespace troupe::actors
