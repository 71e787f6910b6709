// `troupe-lab sim --requests` and `--overload`: runs a load without faults on a simulated cluster of a
// given size.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "deploy/data/device_option.h"
#include "deploy/data/text_file.h"
#include "deploy/data/version.h"
#include "deploy/lab/commands/command_sim.h"
#include "deploy/lab/reports/html_report.h"
#include "deploy/reports/table.h"
#include "placement/cost/device_profiles.h"
#include "sim/runs/load.h"

namespace troupe::deploy {

namespace {

void set_hardware(const SimCommandOptions& options, double tokens_around, sim::Scenario& s) {
  s.hardware = {device_of(options.device), placement::find_shape(options.shape)};
  const placement::LinkProfile& link = placement::find_link(options.link);
  s.link.latency_min =
      s.link.latency_max = {std::max<std::int64_t>(1, static_cast<std::int64_t>(link.latency_us))};
  s.link.bytes_per_us = link.bandwidth * link.efficiency * 1e-6;
  const placement::CostModel cost(s.hardware->device, s.hardware->shape);
  const double tokens = s.candidates * item_tokens_mean + tokens_around;
  const double request_us = cost.prefill_us(static_cast<std::uint64_t>(tokens), 0);
  s.us_per_token = request_us / tokens;
  s.capacity_per_s = 1e6 * s.workers * s.slots / request_us;
  s.requests_per_s = 0.5 * s.capacity_per_s;
}

// Returns the load of --requests and --overload.
Demand drawn_demand(const SimCommandOptions& options) {
  Demand demand;
  if (options.items > 0) demand.items = static_cast<std::uint32_t>(options.items);
  demand.users = std::max(1'000U, demand.items / 4);
  return demand;
}
// A ramp measures the capacity: the most answers per second. Then come a calm phase, ten times the
// capacity, and the recovery.
std::vector<sim::LoadPhase> overload_phases(const sim::Scenario& s, double minutes) {
  std::vector<sim::LoadPhase> phases{{"warm up", {20'000'000}, s.requests_per_s / 2}};
  for (const double times : {0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0})
    phases.push_back({"ramp " + fixed(times, 1), {12'000'000}, times * s.capacity_per_s, 0, true});
  phases.push_back({"calm", {15'000'000}, 0, 0.5});
  phases.push_back({"0.8 times", {30'000'000}, 0, 0.8});
  phases.push_back({"overload, 10 times", {static_cast<std::int64_t>(minutes * 60e6)}, 0, 10});
  phases.push_back({"0.8 times again", {60'000'000}, 0, 0.8});
  return phases;
}

// Returns seconds from the end of the overload until the first of five normal seconds in a row;
// negative: never. A second is normal if its 99th percentile is at most twice that before the
// overload and at most 1 % of its requests are refused or expired.
double seconds_to_normal(const sim::LoadResult& result) {
  const std::size_t phases = result.phases.size();
  const sim::LoadPhaseResult& before = result.phases[phases - 3];
  const auto end = static_cast<std::size_t>(result.phases[phases - 2].to_s);
  int good = 0;
  for (std::size_t i = end; i < result.seconds.size(); ++i) {
    const sim::LoadSecond& second = result.seconds[i];
    const bool normal = second.offered > 0 && second.p99_ms <= 2 * before.p99_ms &&
                        second.refused + second.expired <= 0.01 * second.offered;
    good = normal ? good + 1 : 0;
    if (good == 5) return static_cast<double>(i - end) - 4;
  }
  return -1;
}

struct Spread {
  // deviation: standard deviation as a fraction of the mean
  double least = 0, median = 0, most = 0, deviation = 0;
};

Spread spread_of(std::vector<std::uint64_t> counts) {
  if (counts.empty()) return {};
  std::ranges::sort(counts);
  const double n = static_cast<double>(counts.size());
  const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) / n;
  double squares = 0;
  for (const std::uint64_t count : counts)
    squares += (static_cast<double>(count) - mean) * (static_cast<double>(count) - mean);
  return {static_cast<double>(counts.front()), static_cast<double>(counts[counts.size() / 2]),
          static_cast<double>(counts.back()), mean > 0 ? std::sqrt(squares / n) / mean : 0};
}

nlohmann::json to_json(const sim::Scenario& s, const sim::LoadResult& r) {
  const Spread spread = spread_of(r.plans_per_worker);
  nlohmann::json phases = nlohmann::json::array();
  for (const sim::LoadPhaseResult& p : r.phases)
    phases.push_back({{"name", p.name},
                      {"from_s", p.from_s},
                      {"to_s", p.to_s},
                      {"offered_per_s", p.offered},
                      {"answered_per_s", p.answered},
                      {"p50_ms", p.p50_ms},
                      {"p99_ms", p.p99_ms}});
  return {{"commit", commit()},
          {"nodes", s.nodes()},
          {"workers", s.workers},
          {"routers", s.routers},
          {"items", s.items},
          {"requests", r.tally.requests},
          {"answered", r.tally.answered},
          {"refused", r.tally.refused},
          {"expired", r.tally.expired},
          {"events", r.events},
          {"wall_s", r.wall_s},
          {"virtual_s", r.virtual_s},
          {"resident_mb", r.resident_mb},
          {"item_hit_rate", r.item_hit_rate},
          {"user_hit_rate", r.user_hit_rate},
          {"token_hit_rate", r.token_hit_rate},
          {"capacity_per_s", r.capacity},
          {"plans_per_worker",
           {{"least", spread.least},
            {"median", spread.median},
            {"most", spread.most},
            {"relative_deviation", spread.deviation}}},
          {"phases", phases},
          {"violations", r.violations.size()}};
}

Table phase_table(const sim::LoadResult& r) {
  using enum Table::Align;
  Table table({{"phase"},
               {"from s", right},
               {"to s", right},
               {"offered/s", right},
               {"answered/s", right},
               {"p50 ms", right},
               {"p99 ms", right}});
  for (const sim::LoadPhaseResult& p : r.phases)
    table.row({p.name, fixed(p.from_s, 0), fixed(p.to_s, 0), fixed(p.offered, 0), fixed(p.answered, 0),
               fixed(p.p50_ms, 1), fixed(p.p99_ms, 1)});
  return table;
}

void print_result(std::ostream& out, const sim::Scenario& s, const sim::LoadResult& r) {
  const Spread spread = spread_of(r.plans_per_worker);
  phase_table(r).print(out);
  out << s.nodes() << " nodes (" << s.workers << " workers), " << s.items << " items, " << r.tally.requests
      << " requests: " << r.tally.answered << " answered, " << r.tally.refused << " refused, "
      << r.tally.expired << " expired\n"
      << r.events << " events in " << fixed(r.wall_s, 1) << " s ("
      << fixed(static_cast<double>(r.events) / r.wall_s / 1e3, 0) << " thousand per second); virtual time "
      << fixed(r.virtual_s, 1) << " s; resident " << fixed(r.resident_mb, 0) << " MB\nhit rates: items "
      << fixed(100 * r.item_hit_rate, 1) << " %, users " << fixed(100 * r.user_hit_rate, 1) << " %, tokens "
      << fixed(100 * r.token_hit_rate, 1) << " %\nplans per worker: least " << fixed(spread.least, 0)
      << ", median " << fixed(spread.median, 0) << ", most " << fixed(spread.most, 0)
      << "; relative deviation " << fixed(100 * spread.deviation, 1) << " %\n";
  for (const sim::Violation& v : r.violations)
    out << "promise " << v.promise << " is broken: " << v.what << '\n';
}

Plot plot_of(const std::string& title, const std::string& y_label, const sim::LoadResult& r,
             const std::vector<std::pair<std::string, double sim::LoadSecond::*>>& lines,
             bool log_y = false) {
  Plot plot{.title = title, .x_label = "virtual time, s", .y_label = y_label, .log_y = log_y};
  for (const auto& [name, member] : lines) {
    PlotSeries series{name, {}, {}};
    for (std::size_t i = 0; i < r.seconds.size(); ++i) {
      series.x.push_back(static_cast<double>(i));
      series.y.push_back(r.seconds[i].*member);
    }
    plot.series.push_back(std::move(series));
  }
  for (const sim::LoadPhaseResult& p : r.phases) plot.marks.push_back({p.name, p.from_s, p.to_s});
  return plot;
}

Report report_of(const sim::Scenario& s, const sim::LoadResult& r, const std::string& verdict) {
  using S = sim::LoadSecond;
  ReportTable phases{"Phases of the load.",
                     {{"phase"},
                      {"offered/s", Table::Align::right},
                      {"answered/s", Table::Align::right},
                      {"p50 ms", Table::Align::right},
                      {"p99 ms", Table::Align::right}},
                     {}};
  for (const sim::LoadPhaseResult& p : r.phases)
    phases.rows.push_back(
        {p.name, fixed(p.offered, 0), fixed(p.answered, 0), fixed(p.p50_ms, 1), fixed(p.p99_ms, 1)});
  ReportSection load{
      "Load and answers",
      {std::to_string(s.nodes()) + " simulated nodes with " + std::to_string(s.workers) + " workers, " +
           std::to_string(s.items) + " items, " + std::to_string(r.tally.requests) + " requests.",
       verdict},
      {phases},
      {plot_of("Requests", "per second", r,
               {{"offered", &S::offered},
                {"answered", &S::answered},
                {"refused", &S::refused},
                {"expired", &S::expired}},
               true),
       plot_of("Latency of replies", "ms", r, {{"p99", &S::p99_ms}, {"p50", &S::p50_ms}}, true)}};
  ReportSection bounds{
      "What is held",
      {"Queues are bounded by the configuration; the memory is that of the simulating process."},
      {},
      {plot_of("Requests and plans in the cluster", "count", r,
               {{"in flight", &S::in_flight}, {"waiting plans", &S::waiting}}),
       plot_of("Resident memory", "MB", r, {{"resident", &S::resident_mb}})}};
  return {"A cluster under load", "commit " + std::string(commit()), {load, bounds}};
}

}  // namespace

// A worker's pool holds a fraction of the catalog; the whole cluster holds a large part of it.
sim::Scenario planning_scenario(const SimCommandOptions& options, const Demand& demand) {
  sim::Scenario s;
  const std::uint32_t nodes = options.nodes.value_or(6);
  s.together = nodes < 4;
  s.routers = s.together ? nodes : std::max(1U, nodes / 64);
  s.cache_metas = 1;
  s.workers = s.together ? nodes : nodes - s.routers - s.cache_metas;
  s.items = demand.items;
  s.users = demand.users;
  s.tenants = demand.tenants;
  s.candidates = demand.candidates;
  s.seed = options.seed;
  const auto policy = router::find_policy(options.policy.empty() ? "planner" : options.policy);
  if (!policy) throw std::invalid_argument("--policy is " + router::policy_fault_text(options.policy));
  s.policy = *policy;
  s.writes_share = 0;
  s.precompute = s.store = false;
  s.frequency_window = {300'000'000};
  s.in_flight_max = 4'096;
  s.queue_max = 256;
  s.batch_tokens_max = 4'096;
  const double pages = 1.5 * s.items * (item_tokens_mean + 30) / s.page_tokens / s.workers;
  s.pages = static_cast<std::uint32_t>(std::clamp(pages, 4'096.0, 65'536.0));
  set_hardware(options, demand.tokens_around, s);
  return s;
}

int run_sim_load(const SimCommandOptions& options) {
  sim::LoadOptions load;
  load.scenario = planning_scenario(options, drawn_demand(options));
  load.requests_max = options.overload ? 0 : options.requests;
  load.phases =
      options.overload
          ? overload_phases(load.scenario, options.minutes.value_or(10))
          : std::vector<sim::LoadPhase>{{"steady", {1'000'000'000'000}, load.scenario.requests_per_s}};
  return run_planned(options, load);
}

int run_planned(const SimCommandOptions& options, sim::LoadOptions load) {
  if (!options.json.empty()) check_output(options.json);
  if (!options.report.empty()) check_output(options.report);
  sim::LoadResult result;
  {
    Progress progress("load", 1'000);
    load.progress = [&](double share) { progress.at(static_cast<std::uint64_t>(share * 1'000)); };
    result = run_load(load);
  }
  std::ostream& out = options.json == "-" ? std::cerr : std::cout;
  print_result(out, load.scenario, result);
  std::string verdict;
  bool good = result.violations.empty();
  if (options.overload) {
    const double goodput = result.phases[result.phases.size() - 2].answered / result.capacity;
    const double normal = seconds_to_normal(result);
    good = good && goodput >= 0.9 && normal >= 0 && normal <= 10;
    verdict = "Capacity " + fixed(result.capacity, 0) + " answers per second; under ten times that " +
              fixed(100 * goodput, 1) + " % of it; back to normal " +
              (normal < 0 ? "never" : fixed(normal, 0) + " s after") + " the overload's end.";
    out << verdict << '\n';
  }
  if (!options.report.empty())
    write_output(options.report, to_html(report_of(load.scenario, result, verdict)));
  if (!options.json.empty()) write_output(options.json, to_json(load.scenario, result).dump(2) + "\n");
  return good ? 0 : 1;
}

}  // namespace troupe::deploy
