#pragma once
// Queue of future events of the simulated world, ordered by time. A binary heap of small entries points to
// slots with the payloads, so that nothing large moves when the heap is reordered.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe {

template <class Thing>
class SimQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  Instant next_at() const { return heap_.front().at; }

  // Adds a payload. Payloads of the same time are returned by `order`, smaller first.
  void push(Instant at, std::uint64_t order, Thing thing) {
    std::uint32_t slot = static_cast<std::uint32_t>(things_.size());
    if (free_.empty()) {
      things_.push_back(std::move(thing));
    } else {
      slot = free_.back();
      free_.pop_back();
      things_[slot] = std::move(thing);
    }
    heap_.push_back({at, order, slot});
    std::push_heap(heap_.begin(), heap_.end(), Later());
  }

  Thing pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    const std::uint32_t slot = heap_.back().slot;
    heap_.pop_back();
    free_.push_back(slot);
    return std::exchange(things_[slot], Thing());
  }

  // Moves payloads to other times: `time_of(thing, at)` returns the new time of each. Visits all payloads.
  template <class TimeOf>
  void reschedule(TimeOf time_of) {
    for (Entry& entry : heap_) entry.at = time_of(std::as_const(things_[entry.slot]), entry.at);
    std::make_heap(heap_.begin(), heap_.end(), Later());
  }

  void clear() {
    heap_.clear();
    things_.clear();
    free_.clear();
  }

 private:
  struct Entry {
    Instant at;
    std::uint64_t order;
    std::uint32_t slot;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  std::vector<Entry> heap_;
  std::vector<Thing> things_;
  std::vector<std::uint32_t> free_;
};

}  // namespace troupe
