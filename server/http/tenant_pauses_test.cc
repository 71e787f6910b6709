#include "server/http/tenant_pauses.h"

#include <doctest/doctest.h>

#include "runtime/wire/json.h"

namespace troupe::server {
namespace {

const Refusal too_much{429, "tenant_overloaded", "it has 9 requests here", "tenant", "at most 9", 2};

struct Door {
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
  void answer() {
    pauses.answered("flood");
    --asked;
  }
};

TEST_CASE("tenant pauses: a tenant refused for its load is refused again, and others are not") {
  Door door;
  CHECK(door.come(10, 100) == 10);
  door.refuse(100);
  const TenantPauses::Told* told = door.pauses.find("flood", 119);
  REQUIRE(told != nullptr);
  CHECK(told->status == 429);
  CHECK(told->retry_after_s == 2);
  CHECK(told->json == to_json(too_much));
  CHECK(door.come(5, 119, "steady") == 5);
}

TEST_CASE("tenant pauses: each answered request lets another one through") {
  Door door;
  door.come(10, 100);
  door.refuse(100);
  CHECK(door.come(50, 101) == 0);
  door.answer();
  door.answer();
  CHECK(door.come(50, 102) == 2);
  CHECK(door.asked == 9);
}

TEST_CASE("tenant pauses: requests in flight that are refused as well are not replaced") {
  Door door;
  door.come(10, 100);
  for (int i = 0; i < 4; ++i) door.refuse(100 + i);
  CHECK(door.come(50, 104) == 0);
  CHECK(door.asked == 6);
}

TEST_CASE("tenant pauses: after the pause one more passes, then twice as many until one is refused") {
  Door door;
  door.come(10, 100);
  door.refuse(100);
  CHECK(door.come(50, 119) == 0);
  CHECK(door.come(50, 120) == 1);
  CHECK(door.come(50, 139) == 0);
  CHECK(door.come(50, 140) == 2);
  CHECK(door.come(50, 160) == 4);
  door.refuse(161);
  CHECK(door.come(50, 180) == 0);
  CHECK(door.come(50, 181) == 1);
}

TEST_CASE("tenant pauses: a tenant without requests in flight is never paused") {
  Door door;
  door.come(1, 100);
  door.refuse(100);
  CHECK(door.pauses.size() == 0);
  CHECK(door.come(2, 101) == 2);
  door.refuse(101);
  CHECK(door.come(50, 102) == 0);
  door.answer();
  CHECK(door.pauses.size() == 0);
  CHECK(door.come(50, 103) == 50);
}

TEST_CASE("tenant pauses: the first refusals are sent at once, later ones at a bounded rate and delay") {
  Door door;
  const std::int64_t now = 1'000'000;
  door.come(10, now);
  door.refuse(now);
  for (int i = 0; i <= TenantPauses::turns_at_once; ++i) CHECK(door.pauses.take_turn("flood", now) == 0);
  for (int i = 1; i <= 100; ++i) CHECK(door.pauses.take_turn("flood", now) == i * TenantPauses::turn_us);
  // after 50 intervals half of them have been sent
  CHECK(door.pauses.take_turn("flood", now + 50 * TenantPauses::turn_us) == 51 * TenantPauses::turn_us);
  for (int i = 0; i < 1000; ++i) CHECK(door.pauses.take_turn("flood", now) <= TenantPauses::turn_us_max);
  CHECK(door.pauses.take_turn("flood", now + 2 * TenantPauses::turn_us_max) == 0);
  door.come(10, now, "other");
  CHECK(door.pauses.take_turn("other", now) == 0);
}

TEST_CASE("tenant pauses: a refusal that says nothing of other requests pauses no tenant") {
  Door door;
  door.come(10, 100);
  door.refuse(100, {503, "overloaded", "", "", "", 2});
  door.refuse(100, {404, "unknown_user", "", "", ""});
  CHECK(door.come(50, 100) == 50);
}

TEST_CASE("tenant pauses: a refusal that says nothing of other requests ends no pause") {
  Door door;
  door.come(10, 100);
  door.refuse(100);
  door.refuse(101, {503, "worker_lost", "", "", ""});
  CHECK(door.come(50, 102) == 1);  // replaces the refused one
}

}  // namespace
}  // namespace troupe::server
