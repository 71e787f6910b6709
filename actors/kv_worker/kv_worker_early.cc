// Blocks of other nodes that are read while they come. A request that waits for nothing else is told of their
// pages when the copies run, and reads behind them. It goes on waiting as before: when a copy has ended well
// the block is pinned for it as for all who waited; when not, or when the block was forgotten meanwhile,
// nobody finds it, and its pages stay until those who may have read there let go.
#include <algorithm>

#include "actors/kv_worker/kv_worker_core.h"
#include "kernels/base/check.h"

namespace troupe::actors {

// Once, when all that it waits for is coming.
void KvWorkerCore::tell_coming(Serial serial, Effects& effects) {
  Request& request = requests_.at(serial);
  if (!request.ask.early || request.told_early || request.answered) return;
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    if (!request.holds[i].waiting) continue;
    const auto at = making_.find(request.ask.wants[i].name);
    if (at == making_.end() || !at->second.coming) return;
  }
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    Hold& hold = request.holds[i];
    if (!hold.waiting) continue;
    const BlockName& name = request.ask.wants[i].name;
    hold.early = making_.at(name).generation;
    EarlyReads& reads = early_reads_[hold.early];
    reads.name = name;
    ++reads.readers;
  }
  request.told_early = true;
  send_grants(request, effects);
}

// A copy has its own end: it is told, however late.
bool KvWorkerCore::awaits_coming(const Request& request) const {
  if (!request.told_early) return false;
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    const Hold& hold = request.holds[i];
    if (!hold.waiting || hold.early == 0) continue;
    const auto at = making_.find(request.ask.wants[i].name);
    if (at != making_.end() && at->second.generation == hold.early) return true;
  }
  return false;
}

bool KvWorkerCore::has_early_waiter(const Pull& pull) const {
  return config_.pull_parts > 1 && std::ranges::any_of(pull.blocks, [&](const ComingBlock& coming) {
           return std::ranges::any_of(making_.at(coming.name).waiters, [&](const Waiter& waiter) {
             return waits(waiter) && requests_.at(waiter.request).ask.early;
           });
         });
}

// Where it gets that very block, the pin keeps the pages from now on.
void KvWorkerCore::carry_early(const Hold& before, Hold& after) {
  if (before.early == 0) return;
  if (after.grant == Grant::read && after.generation == before.early) return end_early_read(before.early);
  after.early = before.early;
}

void KvWorkerCore::end_early_read(std::uint64_t generation) {
  const auto at = early_reads_.find(generation);
  TROUPE_CHECK(at != early_reads_.end(), "who reads what comes is counted");
  if (--at->second.readers > 0) return;
  if (at->second.over) pool_.abandon(at->second.name, generation);
  early_reads_.erase(at);
}

// What ended otherwise than as a block that can be found: false if nobody reads there.
bool KvWorkerCore::keep_for_readers(const ComingBlock& coming) {
  const auto at = early_reads_.find(coming.generation);
  if (at == early_reads_.end()) return false;
  at->second.over = true;
  pool_.remove(coming.name, coming.generation);
  return true;
}

}  // namespace troupe::actors
