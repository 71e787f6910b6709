#include "sim/split/split_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "placement/split/marginal.h"
#include "router/fleet/routing.h"
#include "sim/split/split_game.h"
#include "sim/split/split_node.h"
#include "sim/split/split_settings.h"

namespace troupe::sim {
namespace split_run_test {

SplitRunOptions small(Regime regime = Regime::steady) {
  SplitRunOptions options = split_setting(split_data()[1], 6, regime);
  options.nodes = 2;
  options.workload.windows = 12;
  options.warm_up = 6;
  return options;
}

TEST_CASE("split workload: requests are ordered, with the given rate and share of hot users") {
  SplitWorkloadOptions options = small().workload;
  options.windows = 40;
  SplitWorkload workload(options);
  double requests = 0, hot = 0, last = 0;
  for (std::uint32_t w = 0; w < options.windows; ++w)
    for (const SplitRequest& r : workload.next_window()) {
      CHECK(r.at_us >= last);
      last = r.at_us;
      ++requests;
      hot += r.hot;
    }
  CHECK(requests / (options.windows * options.window_s) == doctest::Approx(options.per_second).epsilon(0.05));
  CHECK(hot / requests == doctest::Approx(0.24).epsilon(0.1));
}

TEST_CASE("split workload: a trend rises, and bursts begin and end") {
  for (const Regime regime : {Regime::trend, Regime::burst}) {
    SplitWorkloadOptions options = small(regime).workload;
    options.windows = 60;
    SplitWorkload workload(options);
    std::vector<double> shares, seen;
    for (std::uint32_t w = 0; w < options.windows; ++w) {
      const auto requests = workload.next_window();
      seen.push_back(static_cast<double>(std::ranges::count_if(requests, &SplitRequest::hot)) /
                     static_cast<double>(requests.size()));
      shares.push_back(workload.hot_share());
    }
    if (regime == Regime::trend) {
      CHECK(std::ranges::is_sorted(shares));
      CHECK(shares.back() == doctest::Approx(options.trend_to));
    } else {
      CHECK(std::ranges::count(shares, options.burst_to) >= 3);
      CHECK(std::ranges::count(shares, options.hot_share) > 20);
    }
    double apart = 0;
    for (std::size_t w = 0; w < seen.size(); ++w) apart += std::abs(seen[w] - shares[w]);
    CHECK(apart / static_cast<double>(seen.size()) < 0.06);
  }
}

TEST_CASE("split workload: a user's rows are reproducible, most of them in the user's shards") {
  const SplitRunOptions options = small();
  const SplitTimes times(options.sizes);
  SplitWorkload workload(cluster_workload(options, times));
  const auto rows = workload.rows_of(7, 10'000);
  const std::vector<std::uint32_t> first(rows.begin(), rows.end());
  const auto shards = workload.shards_of(7);
  const auto here = std::ranges::count_if(first, [&](std::uint32_t row) {
    return std::ranges::find(shards, workload.shard_of(row)) != shards.end();
  });
  CHECK(static_cast<double>(here) / static_cast<double>(first.size()) > 0.85);
  workload.rows_of(8, 5'000);
  CHECK(std::ranges::equal(first, workload.rows_of(7, 10'000)));
}

TEST_CASE(
    "split node: coverage is the hit share of the shards' used rows, and 0 for no shards or "
    "unused ones") {
  const SplitTimes times(small().sizes);
  SplitNode node(times, {.shards = 4, .rows_per_shard = 8, .shadows = false});
  const std::vector<std::uint32_t> shards{0, 1}, other{3}, none;
  CHECK(node.coverage(shards) == 0);
  const std::vector<std::uint32_t> rows{3};
  node.serve({.at_us = 0, .user = 1, .length = 10}, rows);  // not in memory yet
  CHECK(node.coverage(shards) == 0);
  node.serve({.at_us = 1, .user = 1, .length = 10}, rows);
  CHECK(node.coverage(shards) == doctest::Approx(0.25));  // one hit of two uses, in one of two shards
  CHECK(node.coverage(std::vector<std::uint32_t>{0}) == doctest::Approx(0.5));
  CHECK(node.coverage(other) == 0);
  CHECK(node.coverage(none) == 0);
}

TEST_CASE("split run: a run is reproducible, and another seed gives another run") {
  SplitRunOptions options = small();
  options.shadows = true;
  options.policy = [](std::uint32_t) { return std::make_unique<placement::MarginalSplit>(); };
  const SplitRunResult one = run_split(options), again = run_split(options);
  CHECK(one.p99_us == again.p99_us);
  CHECK(one.alpha == again.alpha);
  ++options.workload.seed;
  CHECK(run_split(options).p99_us != one.p99_us);
}

TEST_CASE("split run: pool and slab at a static alpha match their recency stacks") {
  for (const std::size_t alpha : {20U, 50U, 80U}) {
    SplitRunOptions options = small();
    options.oracle_draws = 2;
    options.alpha = static_cast<double>(alpha) / 100;
    const SplitRunResult run = run_split(options);
    CHECK(run.p99_us == doctest::Approx(run.static_p99_us[alpha]).epsilon(0.01));
    CHECK(run.gap == doctest::Approx(run.static_gap[alpha]));
  }
}

TEST_CASE("split run: alpha* lies between the ends, where latency is worse") {
  SplitRunOptions options = small();
  options.oracle_draws = 4;
  const SplitRunResult run = run_split(options);
  CHECK(run.best > 0.2);
  CHECK(run.best < 0.9);
  CHECK(run.static_p99_us[0] > 1.2 * *std::ranges::min_element(run.static_p99_us));
}

TEST_CASE("split run: marginal stays stable under routing by keys and under cost routing") {
  const auto run = [](SplitRouting routing) {
    SplitRunOptions options = small();
    options.nodes = 4;
    options.routing = routing;
    options.workload.windows = 20;
    options.warm_up = 12;
    options.shadows = true;
    options.policy = [](std::uint32_t) { return std::make_unique<placement::MarginalSplit>(); };
    return run_split(options);
  };
  const double at_home = run(SplitRouting::home).kv_hits;
  for (const SplitRouting routing : {SplitRouting::kv, SplitRouting::cost}) {
    const SplitRunResult sent = run(routing);
    CHECK(sent.alpha < 0.8);
    CHECK(sent.kv_hits > 0.5 * at_home);
  }
}

// Records the curves that each node decides by.
struct CurveReader final : placement::SplitPolicy {
  explicit CurveReader(std::vector<double>& at_half) : read(at_half) {}
  void decide(const placement::SplitView& view, std::span<double>) override {
    read.push_back(view.savings[0][50] + view.savings[1][50]);
  }
  std::vector<double>& read;
};

TEST_CASE("split run: pooled, each node decides by the savings of all nodes; else by its own") {
  std::vector<double> read[2];
  for (const bool pooled : {false, true}) {
    SplitRunOptions options = small();
    options.workload.windows = 3;
    options.warm_up = 2;
    options.shadows = true;
    options.pooled = pooled;
    options.policy = [&](std::uint32_t) { return std::make_unique<CurveReader>(read[pooled]); };
    run_split(options);
    REQUIRE(read[pooled].size() == 6);  // two nodes, three windows
  }
  for (std::size_t window = 0; window < 6; window += 2) {
    CHECK(read[0][window] != read[0][window + 1]);
    CHECK(read[1][window] == read[1][window + 1]);
    CHECK(read[1][window] == doctest::Approx(read[0][window] + read[0][window + 1]));
  }
}

TEST_CASE("split run: marginal converges to the best alpha from either end") {
  for (const double from : {0.1, 0.9}) {
    SplitRunOptions options = small();
    options.oracle_draws = 4;
    options.workload.windows = 20;
    options.warm_up = 12;
    options.alpha = from;
    options.shadows = true;
    options.policy = [](std::uint32_t) { return std::make_unique<placement::MarginalSplit>(); };
    const SplitRunResult run = run_split(options);
    CHECK(run.p99_us < 1.1 * *std::ranges::min_element(run.static_p99_us));
  }
}

TEST_CASE(
    "split routing: Algorithm 1 weighs all three, favors the last node and avoids one that is too busy") {
  const RoutingCosts costs{.kv_us = 6, .rows_us = 3, .load_us = 1};
  const auto choose = [&](SplitRouter& router, std::uint32_t user, const std::vector<NodeView>& nodes) {
    return router.choose(user, costs, nodes);
  };
  SplitRouter joint(SplitRouting::joint);
  CHECK(choose(joint, 1, {{false, 0.9, 0}, {true, 0, 0}}) == 1);  // .27 + .1 against .6 + .1
  CHECK(choose(joint, 2, {{false, 0.9, 0}, {false, 0, 0}}) == 0);
  // The last node has a bonus of .05.
  CHECK(choose(joint, 2, {{false, 0.1, 0}, {false, 0.2, 0}}) == 0);
  CHECK(choose(joint, 1, {{false, 0, 1}, {true, 1, 9}}) == 0);  // load 0.9; at the other 0.5
  SplitRouter kv(SplitRouting::kv);
  CHECK(choose(kv, 1, {{true, 0, 0}, {false, 1, 0}}) == 0);
  SplitRouter emb(SplitRouting::emb);
  CHECK(choose(emb, 1, {{true, 0, 0}, {false, 1, 0}}) == 1);
  SplitRouter cost(SplitRouting::cost);
  CHECK(choose(cost, 1, {{true, 1, 10}, {false, 1, 0}}) == 1);  // waiting 10 or computing 6
  CHECK(choose(cost, 1, {{true, 1, 5}, {false, 1, 0}}) == 0);
}

TEST_CASE("split routing: a wait as long as the request counts as half a load, as in the production router") {
  // Both waits are far below any objective. Beside them a few missing rows weigh little.
  const RoutingCosts costs{.kv_us = 2'000, .rows_us = 2'000, .load_us = 4'000};
  SplitRouter joint(SplitRouting::joint);
  // .25 * .9 + .5 * .5 against .25 * .2 + .5 * 1
  CHECK(joint.choose(1, costs, std::vector<NodeView>{{false, 0.9, 4'000}, {false, 0.2, 0}}) == 1);
  CHECK(joint.choose(2, costs, std::vector<NodeView>{{false, 0.9, 1'000}, {false, 0.2, 0}}) == 0);
}

TEST_CASE(
    "split routing: the first of equal nodes is chosen, and a node that is nearly too busy is still "
    "used") {
  const RoutingCosts costs{.kv_us = 60, .rows_us = 30, .load_us = 10};
  SplitRouter joint(SplitRouting::joint);
  CHECK(joint.choose(1, costs, std::vector<NodeView>{{false, 0.5, 0}, {false, 0.5, 0}, {false, 0.5, 0}}) ==
        0);
  CHECK(joint.choose(2, costs, std::vector<NodeView>{{true, 1, 60}, {false, 0, 10}, {false, 0, 10}}) == 1);
  const double limit = 10 * router::too_busy_load / (1 - router::too_busy_load);
  CHECK(joint.choose(3, costs, std::vector<NodeView>{{true, 1, limit - 1e-9}, {false, 0, 10}}) == 0);
  SplitRouter cost(SplitRouting::cost);  // includes the cost of waiting itself
  CHECK(cost.choose(1, costs, std::vector<NodeView>{{true, 1, 5'000}, {false, 1, 4'995}}) == 0);
}

TEST_CASE("split routing: if all nodes are too busy, Algorithm 1 keeps the best score") {
  const RoutingCosts costs{.kv_us = 6, .rows_us = 3, .load_us = 1};
  SplitRouter joint(SplitRouting::joint);
  CHECK(joint.choose(1, costs, std::vector<NodeView>{{false, 0, 8}, {true, 1, 90}}) == 1);  // load 0.89
  CHECK(joint.choose(2, costs, std::vector<NodeView>{{false, 0, 4}, {true, 1, 90}}) == 0);  // load 0.8
}

TEST_CASE("split game: a game uses the given alpha and starts the same again") {
  RecordedGame game(record_runs(1, 3));
  const placement::SplitState begun = game.begin(5);
  CHECK(game.play(0.1).alpha == 0.1);
  const double little = game.reward();
  game.begin(5);
  game.play(0.5);
  CHECK(game.reward() > little);
  CHECK(game.begin(5).p99 == begun.p99);
}

}  // namespace split_run_test
}  // namespace troupe::sim
