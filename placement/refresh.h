#pragma once
// What to change in a placement while it serves (BAT §5.2, step 3): burst-hot items go everywhere, items that
// cooled down go back to the node of their shard, new ones are added, removed ones dropped. A step copies a
// bounded number of bytes; the next step goes on from there. What enters and what leaves are a factor apart,
// so that an item whose heat swings a little stays where it is.
//
// The heat of sharded items does not move them: which of them are placed at all is decided when the whole
// placement is made anew.
#include <cstdint>
#include <span>
#include <vector>

#include "placement/placement.h"
#include "placement/shards.h"

namespace troupe::placement {

struct Heat {
  ItemNumber item = 0;
  double frequency = 0;  // accesses in some window, the same for all
};

struct RefreshLimits {
  double hot_frequency =
      0;  // from here on an item belongs everywhere: HrcsDecision::hot_share of all accesses
  double keep_share = 0.5;  // 0..1: it leaves below this share of that, and makes room for one whose heat
                            // times this share is above its own
  std::uint64_t everywhere_bytes_max = 0;  // of each node, for items that are everywhere
  std::uint64_t memory_bytes = 0;          // of each node, for items
  std::uint64_t copied_bytes_max = 0;      // over all nodes, in this step; one item may always go
};

struct Change {
  ItemNumber item = 0;
  Place from = nowhere, to = nowhere;
  bool operator==(const Change&) const = default;
};

// What happened to the catalog: both are items of the placement (Placement::add_items); nowhere is where new
// ones are.
struct CatalogNews {
  std::span<const ItemNumber> added, removed;
};

// In the order in which they are to be made: what only drops comes first, then the hottest. `heat`: the items
// that were used lately, each once; others count as cold. Takes a walk over all items, a second per 10^9.
std::vector<Change> refresh(const Placement& current, const Items& items, const Shards& shards,
                            std::span<const Heat> heat, const CatalogNews& news, const RefreshLimits& limits);

// The changes made, in order.
void apply(Placement& placement, std::span<const Change> changes);
// The moves of one change, before it is made.
std::vector<Move> moves_of(const Placement& placement, const Change& change);

}  // namespace troupe::placement
