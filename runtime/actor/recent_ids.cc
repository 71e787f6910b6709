// Remembers the ids of the last requests that have had an outcome, so that a late copy of one is
// recognised. The oldest id is forgotten first.
#include "runtime/actor/recent_ids.h"

namespace troupe {

void RecentIds::add(Address asker, RequestId id) {
  const Key key{asker, id};
  if (most_ == 0 || !known_.insert(key).second) return;
  order_.push_back(key);
  if (order_.size() <= most_) return;
  known_.erase(order_.front());
  order_.pop_front();
}

}  // namespace troupe
