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
#include "runtime/actor/planted.h"
#include "runtime/actor/ports.h"

namespace troupe::actors {

// Is what was found by a name the block of that name? Containers may not see the whole of it.
inline bool same_block(const BlockName& found, const BlockName& name) {
  return identical(found, name) || planted(Bug::skip_identity_check);
}

class StoredBlocks {
 public:
  explicit StoredBlocks(std::size_t blocks_max) : blocks_max_(blocks_max) {}

  void add(const StoredBlock& block);  // without effect if there is no room for one more
  void erase(const BlockName& name);
  const StoredBlock* find(
      const BlockName& name) const;  // null if unknown; the same block, not only its place
  std::vector<BlockName> names_of(SegmentKind kind, const std::string& owner) const;
  // The first `count` in the order in which they became known, but for those that are to be kept.
  std::vector<BlockName> oldest(std::size_t count,
                                const std::function<bool(const BlockName&)>& is_kept) const;
  std::size_t blocks() const { return blocks_.size(); }
  bool full() const { return blocks_.size() >= blocks_max_; }

 private:
  std::size_t blocks_max_;
  struct Known {
    StoredBlock block;
    std::uint64_t order = 0;  // in which it became known
  };
  std::map<BlockName, Known> blocks_;
  std::map<std::uint64_t, BlockName> by_order_;
  std::uint64_t last_order_ = 0;
  std::map<std::pair<SegmentKind, std::string>, std::set<BlockName>> owners_;
};

}  // namespace troupe::actors
