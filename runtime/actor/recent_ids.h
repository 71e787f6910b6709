#pragma once
// Remembers requests that have had their outcome, so that a late copy of one is recognised and
// costs nothing. The memory is bounded and forgets the oldest first. A copy that arrives after that
// is treated as a new request.
#include <cstddef>
#include <deque>
#include <set>
#include <utility>

#include "runtime/actor/messages.h"

namespace troupe {

class RecentIds {
 public:
  explicit RecentIds(std::size_t most) : most_(most) {}

  bool contains(Address asker, RequestId id) const { return known_.contains({asker, id}); }
  void add(Address asker, RequestId id);
  std::size_t size() const { return known_.size(); }

 private:
  using Key = std::pair<Address, RequestId>;

  std::size_t most_;
  std::set<Key> known_;
  std::deque<Key> order_;  // of known_, oldest first
};

}  // namespace troupe
