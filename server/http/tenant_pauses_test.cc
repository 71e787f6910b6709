#include "server/http/tenant_pauses.h"

#include <doctest/doctest.h>

#include "server/formats/http_refusal.h"

namespace troupe::server {
namespace {

const Refusal too_much{
    RefusalKind::over_quota, "tenant_overloaded", "it has 9 requests here", "tenant", "at most 9", 2};

struct Listener {
  TenantPauses pauses{20};
  int asked = 0;  // unanswered requests of "flood"

  // Returns how many of these new requests reach the router.
  int come(int requests, std::int64_t now_us, const std::string& tenant = "flood") {
    int reached = 0;
    for (; requests > 0; --requests) {
      if (pauses.find(tenant, now_us)) continue;
      pauses.asks(tenant);
      ++reached;
    }
    asked += reached;
    return reached;
  }
  void refuse(std::int64_t now_us, const Refusal& refusal = too_much) {
    pauses.refused("flood", refusal, now_us);
    --asked;
  }
  // Takes the refusals that are sent at once. `delay_us`: TenantPauses' function for a kind of refusal.
  void send_first_refusals(std::int64_t now_us,
                           std::int64_t (TenantPauses::*delay_us)(const std::string&, std::int64_t)) {
    come(10, now_us);
    refuse(now_us);
    for (int i = 0; i <= TenantPauses::refusals_at_once; ++i) CHECK((pauses.*delay_us)("flood", now_us) == 0);
  }
  void answer() {
    pauses.answered("flood");
    --asked;
  }
};

TEST_CASE("tenant pauses: a tenant refused for its load is refused again, and others are not") {
  Listener http_server;
  CHECK(http_server.come(10, 100) == 10);
  http_server.refuse(100);
  const TenantPauses::StoredRefusal* reported = http_server.pauses.find("flood", 119);
  REQUIRE(reported != nullptr);
  CHECK(reported->kind == RefusalKind::over_quota);
  CHECK(reported->retry_after_s == 2);
  CHECK(reported->json == to_json(too_much));
  CHECK(http_server.come(5, 119, "steady") == 5);
}

TEST_CASE("tenant pauses: each answered request lets another one through") {
  Listener http_server;
  http_server.come(10, 100);
  http_server.refuse(100);
  CHECK(http_server.come(50, 101) == 0);
  http_server.answer();
  http_server.answer();
  CHECK(http_server.come(50, 102) == 2);
  CHECK(http_server.asked == 9);
}

TEST_CASE("tenant pauses: requests in flight that are refused as well are not replaced") {
  Listener http_server;
  http_server.come(10, 100);
  for (int i = 0; i < 4; ++i) http_server.refuse(100 + i);
  CHECK(http_server.come(50, 104) == 0);
  CHECK(http_server.asked == 6);
}

TEST_CASE("tenant pauses: after the pause one more passes, then twice as many until one is refused") {
  Listener http_server;
  http_server.come(10, 100);
  http_server.refuse(100);
  CHECK(http_server.come(50, 119) == 0);
  CHECK(http_server.come(50, 120) == 1);
  CHECK(http_server.come(50, 139) == 0);
  CHECK(http_server.come(50, 140) == 2);
  CHECK(http_server.come(50, 160) == 4);
  http_server.refuse(161);
  CHECK(http_server.come(50, 180) == 0);
  CHECK(http_server.come(50, 181) == 1);
}

TEST_CASE("tenant pauses: a tenant without requests in flight is never paused") {
  Listener http_server;
  http_server.come(1, 100);
  http_server.refuse(100);
  CHECK(http_server.pauses.size() == 0);
  CHECK(http_server.come(2, 101) == 2);
  http_server.refuse(101);
  CHECK(http_server.come(50, 102) == 0);
  http_server.answer();
  CHECK(http_server.pauses.size() == 0);
  CHECK(http_server.come(50, 103) == 50);
}

TEST_CASE("tenant pauses: the first refusals are sent at once, later ones at a bounded rate and delay") {
  Listener http_server;
  const std::int64_t now = 1'000'000;
  http_server.send_first_refusals(now, &TenantPauses::refusal_delay_us);
  for (int i = 1; i <= 100; ++i)
    CHECK(http_server.pauses.refusal_delay_us("flood", now) == i * TenantPauses::refusal_interval_us);
  // after 50 intervals half of them have been sent
  CHECK(http_server.pauses.refusal_delay_us("flood", now + 50 * TenantPauses::refusal_interval_us) ==
        51 * TenantPauses::refusal_interval_us);
  for (int i = 0; i < 1000; ++i)
    CHECK(http_server.pauses.refusal_delay_us("flood", now) <= TenantPauses::refusal_delay_us_max);
  CHECK(http_server.pauses.refusal_delay_us("flood", now + 2 * TenantPauses::refusal_delay_us_max) == 0);
  http_server.come(10, now, "other");
  CHECK(http_server.pauses.refusal_delay_us("other", now) == 0);
}

TEST_CASE("tenant pauses: thousands of lines are refused at the same rate, and do not delay requests") {
  Listener http_server;
  const std::int64_t now = 1'000'000;
  http_server.send_first_refusals(now, &TenantPauses::line_delay_us);
  for (int i = 1; i <= 10'000; ++i)
    REQUIRE(http_server.pauses.line_delay_us("flood", now) == i * TenantPauses::refusal_interval_us);
  CHECK(http_server.pauses.refusal_delay_us("flood", now) == 0);
  CHECK(http_server.pauses.line_delay_us("flood", now) == 10'001 * TenantPauses::refusal_interval_us);
  for (int i = 0; i < 20'000; ++i)
    REQUIRE(http_server.pauses.line_delay_us("flood", now) <= TenantPauses::line_delay_us_max);
}

TEST_CASE("tenant pauses: a refusal that says nothing of other requests pauses no tenant") {
  Listener http_server;
  http_server.come(10, 100);
  http_server.refuse(100, {RefusalKind::unavailable, "overloaded", "", "", "", 2});
  http_server.refuse(100, {RefusalKind::not_found, "unknown_user", "", "", ""});
  CHECK(http_server.come(50, 100) == 50);
}

TEST_CASE("tenant pauses: a refusal that says nothing of other requests ends no pause") {
  Listener http_server;
  http_server.come(10, 100);
  http_server.refuse(100);
  http_server.refuse(101, {RefusalKind::unavailable, "worker_lost", "", "", ""});
  CHECK(http_server.come(50, 102) == 1);  // replaces the refused one
}

}  // namespace
}  // namespace troupe::server
