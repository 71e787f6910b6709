#include "actors/allocator/allocator_core.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "placement/split/latency_counts.h"
#include "placement/split/marginal.h"
#include "runtime/pool/pool_areas.h"
#include "runtime/testing/accepted_senders.h"
#include "runtime/testing/core_probe.h"

namespace troupe::actors {
namespace {

constexpr Address worker{1, Role::kv_worker}, server{1, Role::server};

struct Bench {
  AllocatorCore core{{.node = 1, .pages = 101, .shares = {0.25, remaining_pages}, .retry = {100}}};
  CoreProbe probe{core};
  bool ready(std::int64_t us) {
    probe.receive(us, server, StatusRequest{9});
    return probe.sent<StatusReply>().at(0).ready;
  }
};

TEST_CASE(
    "allocator: accepts reports of its node's worker and status requests, and counts all else as errors") {
  const auto receive = [](Address from, const Message& message) {
    Bench b;
    b.probe.start();
    b.probe.receive(1, from, message);
    return b.probe.effects;
  };
  CHECK(accepted_senders(1, receive) == R"(PoolReport: kv_worker here
StatusRequest: everybody
)");
}

TEST_CASE("allocator: the item area is sized first and users get the rest") {
  Bench b;
  b.probe.start();
  REQUIRE(b.probe.sent<SetSplit>().size() == 1);
  CHECK(b.probe.sent<SetSplit>()[0] == SetSplit{0, 1, {{25}, {76}}});
  CHECK(b.probe.recipients().at(0) == worker);
}

TEST_CASE("allocator: the row area gets its share and lends none of it") {
  AllocatorCore core{{.node = 1, .pages = 100, .shares = {0.25, remaining_pages, 0.2}, .retry = {100}}};
  CoreProbe probe{core};
  probe.start();
  REQUIRE(probe.sent<SetSplit>().size() == 1);
  CHECK(probe.sent<SetSplit>()[0] == SetSplit{0, 1, {{25}, {55}, {20, 20}}});
}

TEST_CASE("allocator: the split names the worker's incarnation once a report has named it") {
  Bench b;
  b.probe.start();
  b.probe.receive(1, worker, PoolReport{70, 0});
  REQUIRE(b.probe.sent<SetSplit>().size() == 1);
  CHECK(b.probe.sent<SetSplit>()[0] == SetSplit{70, 1, {{25}, {76}}});
}

TEST_CASE("allocator: the split is repeated until the worker reports it") {
  Bench b;
  b.probe.start();
  b.probe.run_until(250);
  CHECK(b.probe.sent<SetSplit>().size() == 2);
  CHECK_FALSE(b.ready(260));
  b.probe.receive(270, worker, PoolReport{70, 1, {{25, 3}, {76, 4}}});
  b.probe.run_until(1'000);
  CHECK(b.probe.sent<SetSplit>().empty());
  CHECK(b.ready(1'001));
}

TEST_CASE(
    "allocator: a restarted worker gets the split again, under its new incarnation and at the retry "
    "interval") {
  Bench b;
  b.probe.start();
  b.probe.receive(50, worker, PoolReport{70, 1});
  b.probe.run_until(100);
  b.probe.receive(500, worker, PoolReport{80, 0});
  REQUIRE(b.probe.sent<SetSplit>().size() == 1);
  CHECK(b.probe.sent<SetSplit>()[0].incarnation == 80);
  b.probe.receive(501, worker, PoolReport{80, 0});  // sent just now: the retry timer runs
  CHECK(b.probe.sent<SetSplit>().empty());
  b.probe.run_until(600);
  CHECK(b.probe.sent<SetSplit>().size() == 1);
}

TEST_CASE("allocator: a late report of an earlier worker changes nothing") {
  Bench b;
  b.probe.start();
  b.probe.receive(50, worker, PoolReport{80, 1});
  b.probe.run_until(100);
  b.probe.receive(200, worker, PoolReport{70, 0});
  CHECK(b.probe.effects.list.empty());
  CHECK(b.ready(201));
}

TEST_CASE("allocator: pages that areas have lent become the split, also for the worker's next process") {
  Bench b;
  b.probe.start();
  b.probe.receive(50, worker, PoolReport{70, 1, {{40, 30}, {61, 4}}});
  b.probe.run_until(100);
  // The worker does not know the split yet, so its areas do not count.
  b.probe.receive(200, worker, PoolReport{80, 0, {{25, 0}, {76, 0}}});
  REQUIRE(b.probe.sent<SetSplit>().size() == 1);
  CHECK(b.probe.sent<SetSplit>()[0] == SetSplit{80, 1, {{40}, {61}}});
}

// Records the states that it sees and returns a fixed alpha.
struct Scripted final : placement::AlphaPolicy {
  std::vector<placement::SplitState> seen;
  double alpha = 0.5;
  double next_alpha(const placement::SplitView& view) override {
    seen.push_back(view.state);
    return alpha;
  }
};

struct Decided {
  std::shared_ptr<Scripted> policy = std::make_shared<Scripted>();
  AllocatorCore core{{.node = 1,
                      .pages = 100,
                      .shares = {0.2, remaining_pages},
                      .retry = {100},
                      .policy = policy,
                      .window = {1'000}}};
  CoreProbe probe{core};
  void report(std::int64_t us, Incarnation incarnation, std::uint64_t epoch, std::vector<AreaReport> areas) {
    probe.receive(us, worker, PoolReport{incarnation, epoch, std::move(areas)});
  }
};

TEST_CASE(
    "allocator: a policy sees the window's totals, and its split has the next epoch and lends nothing") {
  Decided d;
  d.probe.start();
  d.report(0, 70, 1, {{20, 0, 100, 100}, {80, 0, 0, 0}});
  d.probe.run_until(1'000);
  CHECK(d.policy->seen.empty());  // the first window has no report at its start
  d.report(1'500, 70, 1, {{20, 0, 130, 110}, {80, 0, 10, 30}});
  d.probe.run_until(2'000);
  REQUIRE(d.policy->seen.size() == 1);
  CHECK(d.policy->seen[0].row_hits == doctest::Approx(0.75));
  CHECK(d.policy->seen[0].kv_hits == doctest::Approx(0.25));
  CHECK(d.policy->seen[0].alpha == doctest::Approx(0.2));
  REQUIRE(d.probe.sent<SetSplit>().size() == 1);
  CHECK(d.probe.sent<SetSplit>()[0] == SetSplit{70, 2, {{50, 50}, {50, 50}}});
}

TEST_CASE("allocator: a policy's alpha applies to the configured area, whatever its index") {
  for (std::size_t first = 0; first < 3; ++first) {
    CAPTURE(first);
    auto policy = std::make_shared<Scripted>();
    policy->alpha = 0.4;
    AllocatorCore core{{.node = 1,
                        .pages = 100,
                        .shares = {0.2, 0.5, 0.3},
                        .retry = {100},
                        .policy = policy,
                        .first = first,
                        .window = {1'000}}};
    CoreProbe probe{core};
    probe.start();
    probe.receive(0, worker, PoolReport{70, 1, {{20}, {50}, {30}}});
    probe.run_until(1'000);
    probe.receive(1'500, worker, PoolReport{70, 1, {{20, 0, 1}, {50}, {30}}});
    probe.run_until(2'000);
    REQUIRE(policy->seen.size() == 1);
    const std::array before{0.2, 0.5, 0.3};
    CHECK(policy->seen[0].alpha == doctest::Approx(before[first]));
    const auto sent = probe.sent<SetSplit>();
    REQUIRE(!sent.empty());
    for (std::size_t i = 0; i < 3; ++i) {  // the others keep their proportion
      const double share = i == first ? 0.4 : before[i] * 0.6 / (1 - before[first]);
      CHECK(std::abs(sent.back().areas[i].pages - 100 * share) <= 1);
    }
  }
}

TEST_CASE("allocator: nothing is decided before the last decision arrived, nor in a window with a restart") {
  Decided d;
  d.probe.start();
  d.report(0, 70, 1, {{20}, {80}});
  d.probe.run_until(1'000);
  d.report(1'500, 70, 1, {{20, 0, 1}, {80}});
  d.probe.run_until(2'000);
  CHECK(d.policy->seen.size() == 1);
  d.policy->alpha = 0.3;
  d.report(2'500, 70, 1, {{20, 0, 2}, {80}});
  d.probe.run_until(3'000);  // the worker has not reported the second split
  CHECK(d.policy->seen.size() == 1);
  d.report(3'500, 80, 2, {{50}, {50}});
  d.probe.run_until(4'000);
  CHECK(d.policy->seen.size() == 1);
  d.report(4'500, 80, 2, {{50, 0, 1}, {50}});
  d.probe.run_until(5'000);
  CHECK(d.policy->seen.size() == 2);
}

TEST_CASE("allocator: an idle window decides nothing, and an overtaken report is ignored") {
  Decided d;
  d.probe.start();
  d.report(0, 70, 1, {{20, 0, 4}, {80, 0, 5}});
  d.probe.run_until(3'000);
  CHECK(d.policy->seen.empty());
  d.report(3'500, 70, 1, {{20, 0, 7}, {80, 0, 5, 1}});
  d.report(3'600, 70, 1, {{20, 0, 6}, {80, 0, 5, 1}});  // sent before the previous report
  d.probe.run_until(4'000);
  REQUIRE(d.policy->seen.size() == 1);
  CHECK(d.policy->seen[0].row_hits == doctest::Approx(1.0));
  CHECK(d.policy->seen[0].kv_hits == doctest::Approx(0.0));
}

TEST_CASE("allocator: areas split by a policy lend nothing from the first split on") {
  Decided d;
  d.probe.start();
  d.report(0, 70, 0, {});
  REQUIRE(d.probe.sent<SetSplit>().size() == 1);
  CHECK(d.probe.sent<SetSplit>()[0] == SetSplit{70, 1, {{20, 20}, {80, 80}}});
}

// Returns a curve that rises evenly up to `until` hundredths.
std::vector<double> rises(std::size_t until, double us) {
  std::vector<double> savings;
  for (std::size_t cell = 0; cell <= placement::split_cells; ++cell)
    savings.push_back(us * static_cast<double>(std::min(cell, until)));
  return savings;
}

struct Marginal {
  AllocatorCore core{{.node = 1,
                      .pages = 1'000,
                      .shares = {0.3, remaining_pages, 0.2},
                      .retry = {100},
                      .policy = std::make_shared<placement::MarginalSplit>(),
                      .first = 2,
                      .window = {1'000'000}}};
  CoreProbe probe{core};
  void report(std::int64_t us, std::uint64_t epoch, std::vector<AreaReport> areas) {
    probe.receive(us, worker, PoolReport{70, epoch, std::move(areas)});
  }
};

TEST_CASE("allocator: the marginal policy moves pages to the areas whose reports show the largest savings") {
  Marginal m;
  m.probe.start();
  m.report(
      0, 1,
      {{300, 0, 0, 0, 0, rises(60, 1)}, {500, 0, 0, 0, 0, rises(50, 9)}, {200, 0, 0, 0, 0, rises(80, 1)}});
  m.probe.run_until(1'000'000);
  // In this window users would have saved nothing, items much up to 10 hundredths, and rows up to
  // 70.
  m.report(1'500'000, 1,
           {{300, 0, 0, 0, 4'000, rises(60, 1)},
            {500, 0, 0, 0, 0, rises(50, 9)},
            {200, 0, 0, 0, 0, rises(80, 1)}});
  m.probe.run_until(2'000'000);
  CHECK(m.probe.sent<SetSplit>().empty());
  std::vector<double> items = rises(60, 1);
  for (std::size_t cell = 0; cell < items.size(); ++cell)
    items[cell] += 50.0 * static_cast<double>(std::min<std::size_t>(cell, 10));
  std::vector<double> rows = rises(80, 1);
  for (std::size_t cell = 0; cell < rows.size(); ++cell)
    rows[cell] += 20.0 * static_cast<double>(std::min<std::size_t>(cell, 70));
  m.report(2'500'000, 1,
           {{300, 0, 0, 0, 9'000, items}, {500, 0, 0, 0, 0, rises(50, 9)}, {200, 0, 0, 0, 0, rows}});
  m.probe.run_until(3'000'000);
  REQUIRE(m.probe.sent<SetSplit>().size() == 1);
  const SetSplit split = m.probe.sent<SetSplit>()[0];
  CHECK(split.epoch == 2);
  CHECK(split.areas.at(0).pages >= 100);
  CHECK(split.areas.at(2).pages >= 700);
  CHECK(split.areas.at(2).least == split.areas.at(2).pages);  // and lends nothing
  m.probe.receive(3'000'001, server, StatusRequest{9});
  const StatusReply status = m.probe.sent<StatusReply>().at(0);
  const auto field = [&](std::string_view name) {
    for (const StatusField& one : status.fields)
      if (one.name == name) return one.value;
    return std::string("none");
  };
  CHECK(field("item_saved_ms") == "9");
  // Savings of 20 us per ten pages, over 1.98 windows of a second.
  CHECK(field("row_page_more_us_per_s") == "1.01");
  CHECK(field("user_page_less_us_per_s") == "0");
}

// A worker that adopts each split, and reports in each window of a second how many microseconds a
// hundredth of the pool would have saved rows and users since the start.
struct Windows : Marginal {
  std::uint64_t epoch = 1;
  std::array<std::uint32_t, 3> pages{300, 500, 200};
  Windows() {
    probe.start();
    report(0, 1, {{300}, {500}, {200}});
    for (std::int64_t number = 0; number < 20; ++number) window(number, static_cast<double>(number + 1), 0);
  }
  void window(std::int64_t number, double rows, double users) {
    report(number * 1'000'000 + 500'000, epoch,
           {{pages[0]}, {pages[1], 0, 0, 0, 0, rises(70, users)}, {pages[2], 0, 0, 0, 0, rises(70, rows)}});
    probe.run_until((number + 1) * 1'000'000);
    for (const SetSplit& split : probe.sent<SetSplit>()) {
      epoch = split.epoch;
      for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = split.areas.at(i).pages;
    }
  }
};

TEST_CASE("allocator: one odd window does not undo what twenty windows agree on") {
  Windows w;
  CHECK(w.pages[2] >= 700);
  w.window(20, 20, 12);  // only users would have saved something
  CHECK(w.pages[2] >= 700);
  for (std::int64_t number = 21; number < 30; ++number)
    w.window(number, 20, 12 * static_cast<double>(number - 19));
  CHECK(w.pages[1] >= 700);  // but ten such windows do
}

TEST_CASE("allocator: nor does it after many windows without requests") {
  Windows w;
  for (std::int64_t number = 20; number < 520; ++number) w.window(number, 20, 0);
  w.window(520, 20, 12);
  CHECK(w.pages[2] >= 700);
}

TEST_CASE("allocator: an invalid curve counts as none, and a foreign split is overtaken by a higher epoch") {
  Marginal m;
  m.probe.start();
  m.report(0, 7, {{300}, {500}, {200}});
  m.probe.run_until(1'000'000);
  std::vector<double> wrong = rises(50, 1);
  wrong.back() = std::numeric_limits<double>::quiet_NaN();
  m.report(1'500'000, 7,
           {{300, 0, 0, 0, 0, {1, 2, 3}}, {500, 0, 0, 0, 0, wrong}, {200, 0, 0, 0, 0, rises(90, 1)}});
  m.probe.run_until(2'000'000);
  REQUIRE(m.probe.sent<SetSplit>().size() == 1);
  CHECK(m.probe.sent<SetSplit>()[0].epoch == 8);
}

TEST_CASE("allocator: a latency-based policy sees the window's latencies") {
  Decided d;
  d.probe.start();
  PoolReport area_report{
      70, 1, {{20}, {80}}, {10, 1, 100, std::vector<std::uint64_t>(placement::latency_steps)}};
  area_report.served.latencies[0] = 10;
  d.probe.receive(0, worker, area_report);
  d.probe.run_until(1'000);
  area_report.served.requests = 30, area_report.served.hot_requests = 6,
  area_report.served.user_tokens = 100 + 20 * 512;
  area_report.served.latencies[placement::latency_step(150'000)] = 20;
  d.probe.receive(1'500, worker, area_report);
  d.probe.run_until(2'000);
  REQUIRE(d.policy->seen.size() == 1);
  CHECK(d.policy->seen[0].hot_share == doctest::Approx(0.25));
  CHECK(d.policy->seen[0].length == doctest::Approx(0.5));
  CHECK(d.policy->seen[0].violations == 1);
  CHECK(d.policy->seen[0].p99 == doctest::Approx(0.75).epsilon(0.1));
}

TEST_CASE("allocator: another node's report and an unexpected message are counted and ignored") {
  Bench b;
  b.probe.start();
  b.probe.receive(10, {2, Role::kv_worker}, PoolReport{70, 1});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  b.probe.receive(11, worker, BlocksFound{});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  CHECK_FALSE(b.ready(12));
}

}  // namespace
}  // namespace troupe::actors
