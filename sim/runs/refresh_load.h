#pragma once
// What happens to the placement of items while a cluster without faults is under load, how soon it is
// through, and what requests feel of it: an item that becomes hot, many that do at once, a new item that is
// hot at once, a worker that leaves, and one that comes back. Each change has a run of its own.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/violations.h"
#include "sim/scenario/scenario.h"

namespace troupe::sim {

enum class PlacesChange : std::uint8_t { burst, campaign, new_item, worker_leaves, worker_returns };
std::string_view name_of(PlacesChange change);

struct RefreshLoadOptions {
  Scenario scenario;            // has a placement; its faults are ignored
  double burst_share = 0.05;    // of the item accesses, that the one item gets
  double campaign_share = 0.3;  // that so many items get together
  std::uint32_t campaign_items = 50;
  Duration warm_up{20'000'000}, before{60'000'000}, during{5'000'000}, after{60'000'000};
};

struct RefreshWindow {
  double requests = 0, failed = 0, p50_ms = 0, p99_ms = 0;
};

struct RefreshLoadResult {
  // From the change until the items' blocks are on all workers; or until all blocks of the worker that left
  // are on others, or all of the one that came back are there. NaN: not while the run lasted.
  double through_ms = std::numeric_limits<double>::quiet_NaN();
  // How often a request wanted a block of the items where it ran, how often it was not there, and when last.
  double wanted = 0, missed = 0, last_missed_ms = 0;
  RefreshWindow before, during, after;   // `during` begins with the change
  double blocks = 0;                     // that had to be made or moved for it
  double computed = 0, moved_bytes = 0;  // in the background, from the change on
  double refreshed = 0, hot = 0;         // items; hot at the end
  std::vector<Violation> violations;
};

RefreshLoadResult run_refresh_load(PlacesChange change, const RefreshLoadOptions& options);

}  // namespace troupe::sim
