#include "router/precompute/replication.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

using placement::AccessClass;

// Requests of 10 candidates of 8 tokens for users of 100 tokens. A token takes 20 us to compute.
const RequestSizes requests = [] {
  RequestSizes sizes;
  for (int i = 0; i < 3; ++i) sizes.note(10, 80, 100);
  return sizes;
}();
const ReplicationConfig config{.on = true, .alpha = 0.1, .page_tokens = 4, .item_pages = 1'000'000};
const ServingSpeeds speeds{.pace = {.us_per_operation = 20}, .pulled_tokens_per_s = 400'000};
const std::vector<AccessClass> counted{{50, 2}, {20, 10}, {8, 50}, {1, 300}};  // 1,000 accesses

TEST_CASE("request sizes: averages per request and per candidate, of the last requests") {
  RequestSizes sizes;
  CHECK(sizes.candidates() == 0);
  CHECK(sizes.item_tokens() == 0);
  sizes.note(10, 40, 100);
  sizes.note(30, 160, 0);
  CHECK(sizes.candidates() == doctest::Approx(20).epsilon(0.001));
  CHECK(sizes.item_tokens() == doctest::Approx(5).epsilon(0.001));
  CHECK(sizes.user_tokens() == doctest::Approx(50).epsilon(0.001));
  for (int i = 0; i < 20'000; ++i) sizes.note(2, 4, 7);
  CHECK(sizes.candidates() == doctest::Approx(2).epsilon(0.001));
  CHECK(sizes.user_tokens() == doctest::Approx(7).epsilon(0.001));
}

TEST_CASE("replication: R_max is the paper's, from the measured link and pace") {
  const ReplicationDecision decision = decide_replication(config, requests, speeds, 4, counted);
  // 100 tokens take 2 ms. In a tenth of that the link brings 80 tokens, as many as the items have.
  CHECK(decision.ratio_max == doctest::Approx(0.75));
  CHECK(decision.tokens_per_s == 400'000);
  CHECK(decision.is_measured);
  CHECK(decision.accesses == 1'000);
  CHECK(decision.threshold.accesses == 20);  // 100 + 8 * 20 of 1,000 accesses reach a quarter
  CHECK(decision.threshold.items == 12);
  CHECK(decision.hot_share() == doctest::Approx(0.02));
}

TEST_CASE("replication: a faster link replicates fewer items, down to the hottest; a slower one more") {
  ServingSpeeds other = speeds;
  other.pulled_tokens_per_s = 100e6;
  CHECK(decide_replication(config, requests, other, 4, counted).threshold.accesses == 50);
  other.pulled_tokens_per_s = 250'000;
  CHECK(decide_replication(config, requests, other, 4, counted).threshold.accesses == 8);
  other.pulled_tokens_per_s = 1;  // items with fewer accesses than 8 are never hot
  const ReplicationDecision all = decide_replication(config, requests, other, 4, counted);
  CHECK(all.threshold.accesses == 8);
  CHECK(all.threshold.items == 62);
}

TEST_CASE("replication: a link that was not measured has the speed of the configured pull share") {
  ServingSpeeds other = speeds;
  other.pulled_tokens_per_s = 0;
  other.pull_share = 0.25;  // a token takes 5 us
  const ReplicationDecision decision = decide_replication(config, requests, other, 4, counted);
  CHECK(decision.tokens_per_s == doctest::Approx(200'000));
  CHECK_FALSE(decision.is_measured);
  other.pull_share = 0;
  CHECK(decide_replication(config, requests, other, 4, counted).threshold.accesses == 50);
}

TEST_CASE("replication: nothing is replicated without memory for it, or on one worker") {
  ReplicationConfig tiny = config;
  tiny.item_pages = 1;  // an item takes two
  CHECK(decide_replication(tiny, requests, speeds, 4, counted).threshold.accesses == 0);
  CHECK(decide_replication(tiny, requests, speeds, 4, counted).hot_share() == 0);
  tiny.item_pages = 23;  // 2 items and 9 more: not all that are accessed as often
  ServingSpeeds slow = speeds;
  slow.pulled_tokens_per_s = 1;
  CHECK(decide_replication(tiny, requests, slow, 4, counted).threshold.items == 2);
  CHECK(decide_replication(config, requests, speeds, 1, counted).threshold.accesses == 0);
}

TEST_CASE("replication: nothing is decided without accesses, without items, or without a pace") {
  CHECK(decide_replication(config, requests, speeds, 4, {}).accesses == 0);
  CHECK(decide_replication(config, {}, speeds, 4, counted).accesses == 0);
  CHECK(decide_replication(config, requests, {}, 4, counted).accesses == 0);
}

TEST_CASE("replication: it is due after twice as many accesses, later after each eighth of the window") {
  Replication replication(config, 4'096);
  const auto note = [&](std::size_t candidates) { replication.note(candidates, 8 * candidates, 100); };
  note(255);
  CHECK_FALSE(replication.is_due());
  note(1);
  CHECK(replication.is_due());
  CHECK(replication.decide(speeds, 4, counted));
  CHECK_FALSE(replication.is_due());
  note(255);
  CHECK_FALSE(replication.is_due());
  note(1);
  CHECK(replication.is_due());
  CHECK(replication.decide(speeds, 4, counted));
  note(512);
  CHECK(replication.decide(speeds, 4, counted));
  note(511);
  CHECK_FALSE(replication.is_due());
  note(1);
  CHECK(replication.is_due());
  CHECK_FALSE(replication.decide(speeds, 4, {}));  // the earlier decision stays
  CHECK(replication.decision().accesses == 1'000);
  CHECK_FALSE(replication.is_due());
  Replication off({}, 4'096);
  off.note(10'000, 80'000, 100);
  CHECK_FALSE(off.is_due());
}

}  // namespace
}  // namespace troupe::router
