#include "sim/runs/saturation.h"

#include <doctest/doctest.h>

#include "placement/cost/device_profiles.h"

using namespace troupe;
using namespace troupe::sim;

namespace {

// Two nodes with all roles, 200 items of 10 tokens, users of 300 tokens. Every fifth request is of the same
// user.
SaturationOptions small_options() {
  SaturationOptions options;
  Scenario& s = options.scenario;
  s.together = true;
  s.workers = s.routers = 2;
  s.tenants = 1;
  s.items = 200;
  s.users = 500;
  s.candidates = 10;
  s.item_tokens = s.page_tokens = 10;
  s.profiles = {300, 0.5, 900};
  s.whole_catalogs = true;
  s.writes_share = 0;
  s.store = false;
  s.pages = 4'000;
  s.item_share = 0.1;
  s.deadline = {10'000'000};
  s.in_flight_max = s.queue_max = 1'000;
  s.batch_tokens_max = 1'000;
  s.placement = ItemPlacement::replicate;
  s.hardware = {placement::find_device("A100-40G"), placement::find_shape("qwen2-1.5b")};
  s.us_per_token = 20;
  options.requests = [n = 0U](TracedRequest& request) mutable {
    request.user = WorldData::user_id(n % 5 == 0 ? 0 : n % 500);
    request.candidates.clear();
    for (std::uint32_t c = 0; c < 10; ++c)
      request.candidates.push_back(WorldData::item_id((n * 7 + c * 13) % 200));
    ++n;
    return true;
  };
  options.warm_up = 50;
  options.measured = 300;
  options.in_flight = 16;
  return options;
}

SaturationResult run(SaturationOptions options) {
  SaturationResult result = run_saturated(options);
  for (const Violation& violation : result.violations) {
    CAPTURE(violation.what);
    CHECK(violation.promise == 0);
  }
  CHECK(result.refused + result.expired == 0);
  return result;
}

}  // namespace

TEST_CASE("saturation: devices are never idle, and items are precomputed before the first request") {
  SaturationOptions options = small_options();
  options.scenario.policy = router::policy("item");
  const SaturationResult result = run(options);
  CHECK(result.answered > 260);  // time advances in slices
  CHECK(result.answered < 340);
  CHECK(result.items_ahead > 0);
  CHECK(result.item_hit_rate == 1);
  CHECK(result.user_plans == 0);
  CHECK(result.device_busy > 0.7);
  CHECK(result.device_busy < 1.1);
  CHECK(result.token_hit_rate > 0.1);
  CHECK(result.requests_per_s * result.measured_s == doctest::Approx(static_cast<double>(result.answered)));
  const SaturationResult again = run(options);
  CHECK(again.events == result.events);
  CHECK(again.requests_per_s == result.requests_per_s);
}

TEST_CASE("saturation: with timed requests devices are idle or busy depending on the rate") {
  SaturationOptions options = small_options();
  options.scenario.policy = router::policy("item");
  const auto at_rate = [&](std::int64_t gap_us) {
    SaturationOptions timed = options;
    timed.in_flight = 0;
    timed.requests = [gap_us, n = std::int64_t{0}, next = options.requests](TracedRequest& request) mutable {
      request.at = {++n * gap_us};
      return next(request);
    };
    return run(timed);
  };
  const SaturationResult calm = at_rate(50'000), busy = at_rate(6'000);
  CHECK(calm.requests_per_s == doctest::Approx(20).epsilon(0.1));
  CHECK(calm.device_busy < busy.device_busy);
  CHECK(calm.mean_ms < busy.mean_ms);
  CHECK(calm.p50_ms <= calm.p90_ms);
  CHECK(calm.p90_ms <= calm.p99_ms);
}

TEST_CASE(
    "saturation: position-independent blocks are the precomputed ones, alone or behind the system prompt") {
  SaturationOptions options = small_options();
  options.scenario.item_share = 0.5;
  options.scenario.system_tokens = 25;
  options.warm_up = 0;  // otherwise every block was requested once
  options.scenario.profiles = {300, 0.5, 900, 20, 10, 0.9};
  options.scenario.arrangements = {Arrangement::causal};
  options.scenario.interchangeable = {};
  options.scenario.policy = router::policy("causal");
  const SaturationResult plain = run(options);
  CHECK(plain.token_hit_rate < 0.3);
  options.scenario.policy = router::policy("all_blocks+30:attention");
  const SaturationResult alone = run(options);
  CHECK(alone.item_hit_rate > 0.999);  // requests compute the system block, which no item's block sees
  CHECK(alone.user_hit_rate > 0.7);
  CHECK(alone.requests_per_s > plain.requests_per_s);
  options.scenario.scores_each = true;  // with a mark before each item, and blocks that see the system prompt
  CHECK(run(options).item_hit_rate == 1);
}

TEST_CASE("saturation: without reuse every token is computed, which takes longer") {
  SaturationOptions options = small_options();
  options.scenario.policy = router::policy("recompute");
  options.scenario.precompute = false;
  const SaturationResult none = run(options);
  CHECK(none.token_hit_rate == 0);
  options = small_options();
  options.scenario.policy = router::policy("user");
  const SaturationResult user = run(options);
  CHECK(user.user_plans == 1);
  CHECK(user.user_hit_rate > 0.15);
  CHECK(user.requests_per_s > none.requests_per_s);
}

TEST_CASE("saturation: stalling pulls cost more on a slower link, and a slow host link bounds throughput") {
  SaturationOptions options = small_options();
  options.scenario.policy = router::policy("item");
  options.scenario.placement = ItemPlacement::hash;
  options.scenario.item_share = 0.03;  // holds a shard of 100 items and little more
  options.scenario.pulls_stall = true;
  options.scenario.link.bytes_per_us = 10'000;
  const SaturationResult fast = run(options);
  options.scenario.link.bytes_per_us = 100;
  const SaturationResult slow = run(options);
  CHECK(fast.pulled_mb > 0);
  CHECK(slow.requests_per_s < 0.7 * fast.requests_per_s);
  options.scenario.link.bytes_per_us = 10'000;
  options.scenario.host_bytes_per_us = 20;  // an item of 287 kB takes 14 ms
  const SaturationResult host = run(options);
  CHECK(host.requests_per_s < 25);
  CHECK(fast.requests_per_s > 100);
}
