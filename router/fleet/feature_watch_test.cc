#include "router/fleet/feature_watch.h"

#include <doctest/doctest.h>

#include "runtime/testing/catalog_test.h"

namespace troupe::router {
namespace {

const JobResult away =
    Refusal{RefusalKind::unavailable, "features_unavailable", "the shared feature store is away: gone"};
const JobResult empty = list_of({}, true), full = list_of({{"a", "", {1}, 2}}, true);

struct Bench {
  FeatureWatch watch;
  std::uint64_t next_id = 7;
  Effects effects;

  explicit Bench(FeatureWatchConfig config = {.every = {1'000}}) : watch(config) {}
  Step at(std::int64_t us) { return {{us}, next_id, effects}; }
  // Starts the check at this time and answers it; returns false if no check was due.
  bool hear(std::int64_t us, const JobResult& result) {
    const std::uint64_t job = next_id;
    watch.tick(at(us));
    return next_id > job && watch.on_done(at(us), job, result);
  }
  std::size_t lines() const {
    std::size_t count = 0;
    for (const auto& effect : effects.list) count += std::holds_alternative<Effects::Log>(effect);
    return count;
  }
};

TEST_CASE("feature watch: an empty catalog and an absent store are obstacles until they recover") {
  Bench bench;
  CHECK(bench.watch.obstacle() == "the catalog has not been read yet");
  REQUIRE(bench.hear(0, empty));
  CHECK(bench.watch.obstacle().starts_with("the catalog has no items; expected some (troupe import"));
  CHECK(bench.watch.obstacle().find("router.needs_items: false") != std::string::npos);
  REQUIRE(bench.hear(1'000, full));
  CHECK(bench.watch.obstacle().empty());
  REQUIRE(bench.hear(2'000, away));
  CHECK(bench.watch.obstacle() == "the shared feature store is away: gone");
  REQUIRE(bench.hear(3'000, full));
  CHECK(bench.watch.obstacle().empty());
}

TEST_CASE("feature watch: a router that only scores needs no items") {
  Bench bench(FeatureWatchConfig{.every = {1'000}, .needs_items = false});
  REQUIRE(bench.hear(0, empty));
  CHECK(bench.watch.obstacle().empty());
  REQUIRE(bench.hear(1'000, away));
  CHECK_FALSE(bench.watch.obstacle().empty());
}

TEST_CASE("feature watch: one check runs at a time, and not before it is due") {
  Bench bench;
  bench.watch.tick(bench.at(0));
  bench.watch.tick(bench.at(5'000));
  CHECK(bench.next_id == 8);
  CHECK_FALSE(bench.watch.on_done(bench.at(5'000), 6, full));  // another job
  CHECK(bench.watch.on_done(bench.at(5'000), 7, full));
  CHECK_FALSE(bench.watch.on_done(bench.at(5'000), 7, full));  // a second answer
  CHECK_FALSE(bench.hear(5'999, full));
  CHECK(bench.hear(6'000, full));
}

TEST_CASE("feature watch: each change is logged once") {
  Bench bench;
  for (std::int64_t us : {0, 1'000, 2'000}) REQUIRE(bench.hear(us, full));
  CHECK(bench.lines() == 0);
  const JobResult still_away =
      Refusal{RefusalKind::unavailable, "features_unavailable", "away in other words"};
  REQUIRE(bench.hear(3'000, away));
  REQUIRE(bench.hear(4'000, still_away));
  CHECK(bench.watch.obstacle() == "away in other words");
  CHECK(bench.lines() == 1);
  for (std::int64_t us : {5'000, 6'000}) REQUIRE(bench.hear(us, full));
  CHECK(bench.lines() == 2);
}

TEST_CASE("feature watch: answers as known last leave the router ready, and leave a trace") {
  Bench bench;
  ItemList as_known = std::get<ItemList>(full);
  as_known.stale = "the shared feature store is away: gone";
  const auto age = [&] {
    double value = 0;
    for (const auto& effect : bench.effects.list)
      if (const auto* count = std::get_if<Effects::Count>(&effect))
        if (count->metric == Metric::features_age) value = count->amount;
    return value;
  };
  const auto reads = [&] {
    double value = 0;
    for (const auto& effect : bench.effects.list)
      if (const auto* count = std::get_if<Effects::Count>(&effect))
        if (count->metric == Metric::store_refuses && count->label_value == "reads\taway")
          value = count->amount;
    return value;
  };
  REQUIRE(bench.hear(5'000'000, full));
  for (std::int64_t us : {6'000'000, 7'000'000}) REQUIRE(bench.hear(us, as_known));
  CHECK(bench.watch.obstacle().empty());
  CHECK(bench.watch.stale() == "the shared feature store is away: gone");
  CHECK(age() == 2);
  CHECK(reads() == 1);
  CHECK(bench.lines() == 1);
  REQUIRE(bench.hear(8'000'000, full));
  CHECK(bench.watch.stale().empty());
  CHECK(age() == 0);
  CHECK(reads() == 0);
  CHECK(bench.lines() == 2);
}

TEST_CASE("feature watch: a period of 0 disables the check and reports no obstacle") {
  Bench bench(FeatureWatchConfig{});
  CHECK_FALSE(bench.hear(0, empty));
  CHECK(bench.watch.obstacle().empty());
}

}  // namespace
}  // namespace troupe::router
