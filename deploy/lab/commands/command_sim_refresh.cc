// `troupe-lab sim --refresh`: measures what changes of the item placement cost a cluster under load,
// with and without the background refresh.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "deploy/data/text_file.h"
#include "deploy/data/version.h"
#include "deploy/lab/commands/command_sim.h"
#include "deploy/lab/reports/html_report.h"
#include "deploy/reports/table.h"
#include "sim/runs/refresh_load.h"

namespace troupe::deploy {

namespace {

constexpr sim::PlacementChange changes[] = {
    sim::PlacementChange::burst, sim::PlacementChange::campaign, sim::PlacementChange::new_item,
    sim::PlacementChange::worker_leaves, sim::PlacementChange::worker_returns};

struct RefreshRow {
  sim::PlacementChange change;
  bool refreshes = false;
  sim::RefreshLoadResult result;
};

// Sizes the item area of each worker to its part of the placement, so that every new block evicts
// one. For workers that leave and return, the area holds the whole catalog: requests would fill
// anything smaller, and only blocks that fit are moved then.
sim::RefreshLoadOptions load_of(const SimCommandOptions& options, sim::PlacementChange change,
                                bool refreshes) {
  Demand demand{.items = 20'000, .users = 500, .candidates = 10};
  if (options.items > 0) demand.items = static_cast<std::uint32_t>(options.items);
  sim::RefreshLoadOptions load{.scenario = planning_scenario(options, demand)};
  sim::Scenario& s = load.scenario;
  s.placement = sim::ItemPlacement::hot_and_cold;
  s.policy = router::policy("item");
  const Duration away_after = s.refresh.away_after;
  s.refresh.hot_share = refreshes ? 0.001 : 0;
  if (!refreshes) s.refresh.away_after = {600'000'000};
  s.page_tokens = 1;
  s.item_share = 0.8;
  const bool moves_shards =
      change == sim::PlacementChange::worker_leaves || change == sim::PlacementChange::worker_returns;
  const double held = s.items * (moves_shards ? 1.2 : 0.05 + 0.95 / s.workers) * item_tokens_mean;
  s.pages = static_cast<std::uint32_t>(held / s.item_share);
  load.before = load.after = {30'000'000};
  if (moves_shards) load.during = {away_after.us + 5'000'000};
  return load;
}

nlohmann::json to_json(const sim::RefreshWindow& window) {
  return {{"requests", window.requests},
          {"failed", window.failed},
          {"p50_ms", window.p50_ms},
          {"p99_ms", window.p99_ms}};
}

nlohmann::json to_json(const sim::Scenario& s, const std::vector<RefreshRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const RefreshRow& row : rows) {
    const sim::RefreshLoadResult& r = row.result;
    list.push_back(
        {{"change", sim::name_of(row.change)},
         {"refresh", row.refreshes},
         {"through_ms", std::isnan(r.through_ms) ? nlohmann::json() : nlohmann::json(r.through_ms)},
         {"blocks", r.blocks},
         {"computed", r.computed},
         {"moved_bytes", r.moved_bytes},
         {"items_refreshed", r.refreshed},
         {"items_hot", r.hot},
         {"before", to_json(r.before)},
         {"during", to_json(r.during)},
         {"after", to_json(r.after)},
         {"violations", r.violations.size()}});
  }
  return {{"commit", commit()}, {"nodes", s.nodes()},         {"workers", s.workers},
          {"items", s.items},   {"candidates", s.candidates}, {"requests_per_s", s.requests_per_s},
          {"changes", list}};
}

void print(std::ostream& out, const sim::Scenario& s, const std::vector<RefreshRow>& rows) {
  using enum Table::Align;
  out << s.workers << " workers, " << s.items << " items, " << fixed(s.requests_per_s, 0) << " requests/s of "
      << s.candidates << " candidates\n";
  Table table({{"change"},
               {"refresh"},
               {"through ms", right},
               {"not there", right},
               {"last at ms", right},
               {"blocks", right},
               {"computed", right},
               {"moved KB", right},
               {"p99 ms before", right},
               {"during", right},
               {"after", right},
               {"failed", right}});
  for (const RefreshRow& row : rows) {
    const sim::RefreshLoadResult& r = row.result;
    table.row({std::string(sim::name_of(row.change)), row.refreshes ? "on" : "off",
               std::isnan(r.through_ms) ? "never" : fixed(r.through_ms, 0),
               r.wanted > 0 ? fixed(r.missed, 0) + " of " + fixed(r.wanted, 0) : "",
               r.wanted > 0 ? fixed(r.last_missed_ms, 0) : "", fixed(r.blocks, 0), fixed(r.computed, 0),
               fixed(r.moved_bytes / 1e3, 0), fixed(r.before.p99_ms, 2), fixed(r.during.p99_ms, 2),
               fixed(r.after.p99_ms, 2), fixed(r.before.failed + r.during.failed + r.after.failed, 0)});
  }
  table.print(out);
  for (const RefreshRow& row : rows)
    for (const sim::Violation& v : row.result.violations)
      out << "promise " << v.promise << " is broken: " << v.what << '\n';
}

}  // namespace

int run_sim_refresh(const SimCommandOptions& options) {
  if (!options.json.empty()) check_output(options.json);
  std::vector<RefreshRow> rows;
  sim::Scenario scenario;
  {
    Progress progress("changes", 2 * std::size(changes));
    for (const sim::PlacementChange change : changes)
      for (const bool refreshes : {false, true}) {
        const sim::RefreshLoadOptions load = load_of(options, change, refreshes);
        scenario = load.scenario;
        rows.push_back({change, refreshes, sim::run_refresh_load(change, load)});
        progress.at(rows.size());
      }
  }
  print(options.json == "-" ? std::cerr : std::cout, scenario, rows);
  if (!options.json.empty()) write_output(options.json, to_json(scenario, rows).dump(2) + "\n");
  for (const RefreshRow& row : rows)
    if (!row.result.violations.empty()) return 1;
  return 0;
}

}  // namespace troupe::deploy
