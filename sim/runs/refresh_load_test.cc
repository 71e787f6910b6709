#include "sim/runs/refresh_load.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr std::uint32_t items = 3'000;

// Two routers, four workers, and item areas `capacity` times as large as each worker's part of the placement.
// Requests fill the areas quickly, unless they hold the whole catalog.
RefreshLoadOptions small_load(double capacity, bool refreshes) {
  RefreshLoadOptions load;
  Scenario& s = load.scenario;
  s.seed = 5;
  s.routers = 2;
  s.workers = 4;
  s.items = items;
  s.users = 40;
  s.tenants = 1;
  s.writes_share = 0;
  s.store = false;
  s.policy = router::policy("item");
  s.placement = ItemPlacement::hot_and_cold;
  s.refresh = {.hot_share = refreshes ? 0.003 : 0,
               .window = 4'096,
               .away_after = {refreshes ? 3'000'000 : 600'000'000}};
  s.page_tokens = 1;
  s.item_share = 0.8;
  s.pages = static_cast<std::uint32_t>(capacity * items * 7 * (0.05 + 0.95 / 4) / 0.8);
  s.requests_per_s = 100;
  load.warm_up = {2'000'000};
  load.before = {10'000'000};
  load.during = {4'000'000};
  load.after = {10'000'000};
  return load;
}

RefreshLoadResult run(PlacementChange change, double capacity, bool refreshes) {
  const RefreshLoadResult result = run_refresh_load(change, small_load(capacity, refreshes));
  for (const Violation& violation : result.violations) {
    CAPTURE(violation.what);
    CHECK(violation.promise == 0);
  }
  MESSAGE(std::string(name_of(change)), std::string(refreshes ? ", refreshed: " : ": "), result.through_ms,
          " ms; p99 ", result.before.p99_ms, " ", result.during.p99_ms, " ", result.after.p99_ms, " ms; ",
          result.blocks, " blocks, ", result.computed, " computed, ", result.moved_bytes, " bytes moved, ",
          result.refreshed, " refreshed; missed ", result.missed, " of ", result.wanted, ", last ",
          result.last_missed_ms);
  return result;
}

}  // namespace

TEST_CASE("refresh load: items that become popular are soon on all workers, and no request waits for that") {
  for (const PlacementChange change :
       {PlacementChange::burst, PlacementChange::campaign, PlacementChange::new_item}) {
    CAPTURE(name_of(change));
    const RefreshLoadResult on = run(change, 1, true), off = run(change, 1, false);
    CHECK(on.through_ms < 8'000);
    CHECK(on.last_missed_ms < 8'000);
    CHECK(on.missed < 0.1 * on.wanted);
    CHECK(on.missed <= off.missed + 4);
    CHECK(on.during.p99_ms < 1.1 * on.before.p99_ms);
    CHECK(on.after.p99_ms < 1.1 * on.before.p99_ms);
    CHECK(on.before.failed + on.during.failed + on.after.failed == 0);
  }
}

TEST_CASE("refresh load: a worker that leaves or returns moves only its own blocks") {
  const RefreshLoadResult leaves = run(PlacementChange::worker_leaves, 4, true);
  CHECK(leaves.through_ms < 10'000);
  CHECK(leaves.computed <= leaves.blocks);  // requests computed some of them earlier
  const RefreshLoadResult returns = run(PlacementChange::worker_returns, 4, true);
  CHECK(returns.through_ms < 5'000);
  CHECK(returns.computed < 0.1 * returns.blocks);
  CHECK(returns.moved_bytes < 1.1 * returns.blocks * 7 * 4'096);
  CHECK_FALSE(run(PlacementChange::worker_leaves, 4, false).through_ms < 10'000);
}
