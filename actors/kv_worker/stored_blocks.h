#pragma once
// The blocks that a persistent tier is known to have: by name, by owner and by age.
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe::actors {

class StoredBlocks {
 public:
  explicit StoredBlocks(std::size_t blocks_max) : blocks_max_(blocks_max) {}

  void add(StoredBlock block);  // no effect if full
  void erase(const BlockName& name);
  // Returns null if unknown. A different block with a colliding name does not count.
  const StoredBlock* find(const BlockName& name) const;
  std::vector<BlockName> names_of(SegmentKind kind, const std::string& owner) const;
  // Returns the `count` oldest known blocks, except those to be kept.
  std::vector<BlockName> oldest(std::size_t count,
                                const std::function<bool(const BlockName&)>& is_kept) const;
  std::size_t blocks() const { return blocks_.size(); }
  bool full() const { return blocks_.size() >= blocks_max_; }

 private:
  std::size_t blocks_max_;
  struct Entry {
    StoredBlock block;
    std::uint64_t order = 0;  // order of arrival
  };
  std::map<BlockName, Entry> blocks_;
  std::map<std::uint64_t, BlockName> by_order_;
  std::uint64_t last_order_ = 0;
  std::map<std::pair<SegmentKind, std::string>, std::set<BlockName>> owners_;
};

}  // namespace troupe::actors
