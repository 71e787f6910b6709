// Reads of blocks that are in flight: who still reads pages of a copy that failed, so that nobody
// else gets these pages.
#include "actors/kv_worker/in_flight_reads.h"

#include "kernels/base/check.h"

namespace troupe::actors {

void InFlightReads::begin(const BlockName& name, std::uint64_t generation) {
  Readers& readers = blocks_[generation];
  readers.name = name;
  ++readers.count;
}

void InFlightReads::end(std::uint64_t generation) {
  const auto at = blocks_.find(generation);
  TROUPE_CHECK(at != blocks_.end(), "a reader of a block in flight is counted");
  if (--at->second.count > 0) return;
  if (at->second.over) pool_.abandon(at->second.name, generation);
  blocks_.erase(at);
}

bool InFlightReads::keep_pages(const BlockName& name, std::uint64_t generation) {
  const auto at = blocks_.find(generation);
  if (at == blocks_.end()) return false;
  at->second.over = true;
  pool_.remove(name, generation);
  return true;
}

}  // namespace troupe::actors
