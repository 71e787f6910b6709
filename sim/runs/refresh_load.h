#pragma once
// Load without faults during a change of the item placement: how long the change takes and what requests
// notice. The changes are: an item that becomes popular, many that do at once, a new popular item, a worker
// that leaves, and one that returns. Each change is a run of its own.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/violations.h"
#include "sim/scenario/scenario.h"

namespace troupe::sim {

enum class PlacementChange : std::uint8_t { burst, campaign, new_item, worker_leaves, worker_returns };
std::string_view name_of(PlacementChange change);

struct RefreshLoadOptions {
  Scenario scenario;            // needs a placement; faults are ignored
  double burst_share = 0.05;    // share of item accesses that the one item gets
  double campaign_share = 0.3;  // share of item accesses that the `campaign_items` get together
  std::uint32_t campaign_items = 50;
  Duration warm_up{20'000'000}, before{60'000'000}, during{5'000'000}, after{60'000'000};
};

struct RefreshWindow {
  double requests = 0, failed = 0, p50_ms = 0, p99_ms = 0;
};

struct RefreshLoadResult {
  // Time from the change until the items' blocks are on all workers, all blocks of the leaving worker are
  // on others, or all blocks of the returning one are there. NaN = not within the run.
  double through_ms = std::numeric_limits<double>::quiet_NaN();
  // Number of times a request needed a block of these items where it ran, number of times it was missing
  // there, and time of the last miss.
  double wanted = 0, missed = 0, last_missed_ms = 0;
  RefreshWindow before, during, after;   // starts with the change
  double blocks = 0;                     // blocks to be computed or moved
  double computed = 0, moved_bytes = 0;  // in the background, from the change on
  double refreshed = 0, hot = 0;         // number of items; `hot` at the end
  std::vector<Violation> violations;
};

RefreshLoadResult run_refresh_load(PlacementChange change, const RefreshLoadOptions& options);

}  // namespace troupe::sim
