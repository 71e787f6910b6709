#include "server/http/tenant_pauses.h"

#include <doctest/doctest.h>

#include "runtime/wire/json.h"

namespace troupe::server {
namespace {

const Refusal too_much{429, "tenant_overloaded", "it has 9 requests here", "tenant", "at most 9", 2};

struct Door {
  TenantPauses pauses{20};
  int asked = 0;  // of "flood", without an answer

  // How many of those that come now reach the router.
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

TEST_CASE("who was refused for what it has there is told so again, and others are not") {
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

TEST_CASE("for each that is answered another one goes to the router") {
  Door door;
  door.come(10, 100);
  door.refuse(100);
  CHECK(door.come(50, 101) == 0);
  door.answer();
  door.answer();
  CHECK(door.come(50, 102) == 2);
  CHECK(door.asked == 9);
}

TEST_CASE("those that were under way when one was refused, and are refused too, are not replaced") {
  Door door;
  door.come(10, 100);
  for (int i = 0; i < 4; ++i) door.refuse(100 + i);
  CHECK(door.come(50, 104) == 0);
  CHECK(door.asked == 6);
}

TEST_CASE("after the pause one more is let through, then twice as many each time until one is refused") {
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

TEST_CASE("a tenant of which nothing is there is heard, whatever was said") {
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

TEST_CASE(
    "a tenant's first refusals leave at once, the others so many a second, and nobody waits longer than he "
    "may") {
  Door door;
  const std::int64_t now = 1'000'000;
  door.come(10, now);
  door.refuse(now);
  for (int i = 0; i <= TenantPauses::turns_at_once; ++i) CHECK(door.pauses.take_turn("flood", now) == 0);
  for (int i = 1; i <= 100; ++i) CHECK(door.pauses.take_turn("flood", now) == i * TenantPauses::turn_us);
  // 50 turns later half of them are told
  CHECK(door.pauses.take_turn("flood", now + 50 * TenantPauses::turn_us) == 51 * TenantPauses::turn_us);
  for (int i = 0; i < 1000; ++i) CHECK(door.pauses.take_turn("flood", now) <= TenantPauses::turn_us_max);
  CHECK(door.pauses.take_turn("flood", now + 2 * TenantPauses::turn_us_max) == 0);
  door.come(10, now, "other");
  CHECK(door.pauses.take_turn("other", now) == 0);
}

TEST_CASE("a refusal that says nothing of other requests pauses nobody") {
  Door door;
  door.come(10, 100);
  door.refuse(100, {503, "overloaded", "", "", "", 2});
  door.refuse(100, {404, "unknown_user", "", "", ""});
  CHECK(door.come(50, 100) == 50);
}

TEST_CASE("a refusal that says nothing of other requests ends no pause") {
  Door door;
  door.come(10, 100);
  door.refuse(100);
  door.refuse(101, {503, "worker_lost", "", "", ""});
  CHECK(door.come(50, 102) == 1);  // in its place
}

}  // namespace
}  // namespace troupe::server
