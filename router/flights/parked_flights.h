#pragma once
// Flights that wait for any worker, and suspects that wait for one on which this router has no other
// suspect, oldest first. They are retried once something has changed that may free a worker for them.
#include <algorithm>
#include <deque>
#include <utility>

#include "router/flights/flight.h"

namespace troupe::router {

class ParkedFlights {
 public:
  struct Entry {
    Flight::Serial serial = 0;
    bool free = false;  // the next attempt costs nothing
    Refusal refusal;    // of the attempt that failed before; sent if no worker is left
  };

  // A flight that is parked already keeps its position.
  void park(Entry entry) {
    const auto at = std::ranges::find(entries_, entry.serial, &Entry::serial);
    if (at != entries_.end())
      *at = std::move(entry);
    else
      entries_.push_back(std::move(entry));
  }
  void remove(Flight::Serial serial) {
    std::erase_if(entries_, [serial](const Entry& entry) { return entry.serial == serial; });
  }
  std::deque<Entry> take_all() { return std::exchange(entries_, {}); }

  void wake() { due_ = !entries_.empty(); }  // something has changed
  void sleep() { due_ = false; }             // they have seen all changes
  bool due() const { return due_; }
  std::size_t size() const { return entries_.size(); }

 private:
  std::deque<Entry> entries_;
  bool due_ = false;
};

}  // namespace troupe::router
