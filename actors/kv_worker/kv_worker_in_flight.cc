// Reads of blocks that are in flight from other nodes. A request that waits for nothing else gets
// the blocks' pages while the copies run (early), and reads each part after it has arrived. It
// keeps waiting as before. When a copy ends well, the block is pinned for it as for all waiting
// requests. When the copy fails, or the block was forgotten meanwhile, no request finds the block
// any more. Its pages then stay until all early readers have released them.
#include <algorithm>

#include "actors/kv_worker/kv_worker_core.h"
#include "kernels/base/check.h"

namespace troupe::actors {

// Sends the request its grants once, when all blocks that it waits for are in flight.
void KvWorkerCore::announce_in_flight(Serial serial, Effects& effects) {
  Request& request = requests_.at(serial);
  if (!request.ask.early || request.announced || request.answered) return;
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    if (!request.holds[i].waiting) continue;
    const auto at = pending_blocks_.find(request.ask.wants[i].name);
    if (at == pending_blocks_.end() || !at->second.in_flight) return;
  }
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    Hold& hold = request.holds[i];
    if (!hold.waiting) continue;
    const BlockName& name = request.ask.wants[i].name;
    hold.early = pending_blocks_.at(name).generation;
    InFlightReaders& reads = in_flight_readers_[hold.early];
    reads.name = name;
    ++reads.readers;
  }
  request.announced = true;
  send_grants(request, effects);
}

// Returns true if the request waits for a copy in flight. The copy ends by itself, and its end is
// reported, however late.
bool KvWorkerCore::awaits_in_flight(const Request& request) const {
  if (!request.announced) return false;
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    const Hold& hold = request.holds[i];
    if (!hold.waiting || hold.early == 0) continue;
    const auto at = pending_blocks_.find(request.ask.wants[i].name);
    if (at != pending_blocks_.end() && at->second.generation == hold.early) return true;
  }
  return false;
}

// Returns true if a request that waits for one of the pull's blocks could read it during the copy.
// Pages are then copied in parts.
bool KvWorkerCore::has_in_flight_reader(const Pull& pull) const {
  return config_.pull_parts > 1 && std::ranges::any_of(pull.blocks, [&](const PullEntry& in_flight) {
           return std::ranges::any_of(pending_blocks_.at(in_flight.name).waiters, [&](const Waiter& waiter) {
             return waits(waiter) && requests_.at(waiter.request).ask.early;
           });
         });
}

// If the request gets the same block, its pin keeps the pages from now on.
void KvWorkerCore::carry_in_flight_read(const Hold& before, Hold& after) {
  if (before.early == 0) return;
  if (after.grant == Grant::read && after.generation == before.early) return end_in_flight_read(before.early);
  after.early = before.early;
}

void KvWorkerCore::end_in_flight_read(std::uint64_t generation) {
  const auto at = in_flight_readers_.find(generation);
  TROUPE_CHECK(at != in_flight_readers_.end(), "an early reader is counted");
  if (--at->second.readers > 0) return;
  if (at->second.over) pool_.abandon(at->second.name, generation);
  in_flight_readers_.erase(at);
}

// Keeps the pages of a failed or forgotten block for its early readers. Returns false if there are
// none.
bool KvWorkerCore::keep_for_readers(const PullEntry& in_flight) {
  const auto at = in_flight_readers_.find(in_flight.generation);
  if (at == in_flight_readers_.end()) return false;
  at->second.over = true;
  pool_.remove(in_flight.name, in_flight.generation);
  return true;
}

}  // namespace troupe::actors
