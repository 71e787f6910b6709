#include "sim/runs/load.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

using namespace troupe;
using namespace troupe::sim;

namespace {

Scenario small_cluster() {
  Scenario s;
  s.seed = 3;
  s.workers = 2;
  s.items = 60;
  s.users = 4;
  s.tenants = 2;
  s.writes_share = 0;
  s.whole_catalogs = true;
  s.pages = 4'096;
  s.requests_per_s = 20;
  return s;
}

// Returns 40 requests from 2 s on, 50 ms apart; each user's profile grows at every other visit.
std::vector<TracedRequest> some_requests() {
  std::vector<TracedRequest> requests;
  for (std::uint32_t i = 0; i < 40; ++i) {
    TracedRequest& request = requests.emplace_back();
    request.at = {2'000'000 + i * 50'000};
    request.tenant = i % 4 < 2 ? "" : "t1";
    request.user = WorldData::user_id(i % 4);
    if (i % 8 < 4) request.events = {WorldData::item_id(i), WorldData::item_id(i + 1)};
    for (std::uint32_t c = 0; c < 10; ++c)
      request.candidates.push_back(WorldData::item_id((i * 7 + c * 5) % 60));
  }
  return requests;
}

LoadResult replay(const std::vector<TracedRequest>& requests) {
  LoadOptions options;
  options.scenario = small_cluster();
  options.phases = {{"before", {2'000'000}}, {"trace", {3'000'000}}};
  options.requests = [&requests, at = std::size_t{0}](TracedRequest& request) mutable {
    if (at == requests.size()) return false;
    request = requests[at++];
    return true;
  };
  return run_load(options);
}

}  // namespace

TEST_CASE(
    "load: traced requests arrive at their times for their users and items, and are answered correctly") {
  const LoadResult result = replay(some_requests());
  for (const Violation& violation : result.violations) {
    CAPTURE(violation.what);
    CHECK(violation.promise == 0);
  }
  CHECK(result.tally.requests == 40);
  CHECK(result.tally.answered == 40);
  REQUIRE(result.seconds.size() >= 4);
  CHECK(result.seconds[1].offered == 0);
  CHECK(result.seconds[2].offered == 20);
  CHECK(result.seconds[3].offered == 20);
  CHECK(result.phases[0].offered == 0);
  const LoadResult again = replay(some_requests());
  CHECK(again.events == result.events);
  CHECK(again.tally.tokens_reused == result.tally.tokens_reused);
}

TEST_CASE("load: progress rises to the end, even if requests_max ends the load early") {
  LoadOptions options;
  options.scenario = small_cluster();
  options.phases = {{"all", {100'000'000}, 20}};
  options.requests_max = 20;
  std::vector<double> shares;
  options.progress = [&](double share) { shares.push_back(share); };
  run_load(options);
  REQUIRE_FALSE(shares.empty());
  CHECK(std::ranges::is_sorted(shares));
  CHECK(shares.back() >= 1);
}

TEST_CASE("load: a growing profile loses its cached block, an unchanged one keeps it") {
  auto requests = some_requests();
  for (TracedRequest& request : requests) {
    request.user = "u1";
    request.tenant = "";
    request.candidates = {"i1", "i2"};
    request.events = {"i3"};
  }
  const LoadResult grows = replay(requests);
  for (std::size_t i = 1; i < requests.size(); ++i) requests[i].events.clear();
  const LoadResult stays = replay(requests);
  CHECK(grows.tally.answered == 40);
  CHECK(stays.tally.answered == 40);
  CHECK(grows.tally.tokens_total > 2 * stays.tally.tokens_total);
}
