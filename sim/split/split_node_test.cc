#include "sim/split/split_node.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/split/split_routing.h"
#include "sim/split/split_settings.h"
#include "sim/split/split_stations.h"

namespace troupe::sim {
namespace split_node_test {

SplitTimes times_of_games() { return SplitTimes(split_setting(split_data()[1], 6, Regime::steady).sizes); }

std::vector<std::uint32_t> row_range(std::uint32_t first, std::uint32_t count) {
  std::vector<std::uint32_t> rows(count);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

TEST_CASE("split stations: the next request's rows are copied while the device computes") {
  Stations stations;
  CHECK(stations.serve(0, {10, 30}) == 40);
  CHECK(stations.waits(5).copy_us == 5);
  CHECK(stations.waits(5).compute_us == 35);
  CHECK(stations.serve(5, {10, 30}) == 70);   // copied at 20, computes from 40
  CHECK(stations.serve(6, {100, 1}) == 121);  // its own copy is not overlapped
  CHECK(stations.idle_link_us(125) == 5);
  CHECK(stations.waits(125).sum_us() == 0);
}

TEST_CASE("split stations: two requests at once take the longer station twice, and the other one once") {
  const SplitTimes times = times_of_games();
  const auto done_with = [&](std::uint32_t rows) {
    SplitNode node(times, {.shadows = false});
    node.serve({.at_us = 0, .user = 1, .length = 10'000}, row_range(0, rows));
    return node.serve({.at_us = 0, .user = 2, .length = 10'000}, row_range(1'000, rows));
  };
  const double computed = times.computed_us(10'000);
  CHECK(done_with(0) == doctest::Approx(2 * computed));
  const auto few = static_cast<std::uint32_t>(0.5 * computed / times.row_us()),
             many = static_cast<std::uint32_t>(2 * computed / times.row_us());
  CHECK(done_with(few) == doctest::Approx(few * times.row_us() + 2 * computed));
  CHECK(done_with(many) == doctest::Approx(2 * many * times.row_us() + computed));
}

// Moves the rows' share to `alpha`.
struct MovedTo final : placement::AlphaPolicy {
  explicit MovedTo(double alpha) : to(alpha) {}
  double next_alpha(const placement::SplitView&) override { return to; }
  double to;
};

struct RefillCase {
  SplitTimes times = times_of_games();
  std::vector<std::uint32_t> rows = row_range(0, 6'000);  // 9 % of the pool
  double latency = 0;
  std::uint64_t refilled = 0;

  // Reads the rows, halves their area and doubles it again. A second later reads the rows that were evicted.
  explicit RefillCase(double refill_per_s) {
    SplitNode node(times, {.alpha = 0.1, .shadows = false, .refill_per_s = refill_per_s});
    node.serve({.at_us = 0, .user = 1, .length = 5'000}, rows);
    MovedTo less(0.05), more(0.1);
    node.end_window(&less);
    node.end_window(&more);
    for (double at = 60e6; at < 65e6; at += 50'000)  // requests without rows, between which the link is idle
      node.serve({.at_us = at, .user = 1, .length = 5'000}, {});
    refilled = node.refilled();
    latency = node.serve({.at_us = 66e6, .user = 1, .length = 5'000}, rows);
  }
};

TEST_CASE("split node: evicted rows refill a grown area while the link is idle, at the given pace") {
  const RefillCase with(3.2e9), without(0);
  CHECK(without.refilled == 0);
  CHECK(with.refilled > 2'000);
  CHECK(with.latency < without.latency - 2'000 * with.times.row_us());
  const RefillCase slow(1e8);
  CHECK(slow.refilled > 0);
  // 100 MB a second for the 60 seconds, of which 100 ms are kept, and for the 5 seconds of requests
  CHECK(static_cast<double>(slow.refilled) * slow.times.scaled_row_bytes() < 5.2 * 1e8);
}

TEST_CASE("split node: a refill delays no request, and without idle time there is none") {
  const SplitTimes times = times_of_games();
  const auto latencies = [&](double refill_per_s) {
    SplitNode node(times, {.alpha = 0.1, .shadows = false, .refill_per_s = refill_per_s});
    node.serve({.at_us = 0, .user = 1, .length = 5'000}, row_range(0, 6'000));
    MovedTo less(0.05), more(0.1);
    node.end_window(&less);
    node.end_window(&more);
    std::vector<double> all;  // the first request keeps the link busy beyond all the others
    for (std::uint32_t i = 0; i < 20; ++i)
      all.push_back(
          node.serve({.at_us = 1.0 + i, .user = 2 + i, .length = 5'000}, row_range(10'000 + 100 * i, 100)));
    CHECK(node.refilled() == 0);
    return all;
  };
  CHECK(latencies(3.2e9) == latencies(0));
}

TEST_CASE("split node: a gathered row takes longer by the share of the link that gathering reaches") {
  SplitSizes sizes = split_setting(split_data()[1], 6, Regime::steady).sizes;
  sizes.gather = 1;
  const double whole = SplitTimes(sizes).row_us();
  sizes.gather = 0.5;
  CHECK(SplitTimes(sizes).row_us() == doctest::Approx(2 * whole));
}

TEST_CASE("split routing: cost sees a busy link only where it delays the computation") {
  const RoutingCosts costs{.kv_us = 100, .rows_us = 40, .load_us = 200};
  SplitRouter cost(SplitRouting::cost);
  // Copies are done after 90 + 20 or after 0 + 40; the devices are free after 120 and 115.
  CHECK(cost.choose(1, costs, std::vector<NodeView>{{true, 0.5, 120, 90}, {true, 0, 115, 0}}) == 1);
  CHECK(cost.choose(1, costs, std::vector<NodeView>{{true, 0.5, 110, 90}, {true, 0, 115, 0}}) == 0);
  CHECK(cost.choose(1, costs, std::vector<NodeView>{{true, 0.5, 110, 100}, {true, 0, 115, 0}}) == 1);
}

}  // namespace split_node_test
}  // namespace troupe::sim
