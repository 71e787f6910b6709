#include "server/auth/rate_limits.h"

#include <doctest/doctest.h>

#include <optional>

using namespace troupe;
using namespace troupe::server;

namespace rate_limits_test {

constexpr std::int64_t second = 1'000'000;

std::optional<Refusal> refused(RateLimits& limits, const std::string& name, const RateLimit& limit,
                               std::int64_t now_us) {
  const auto begun = limits.begin(name, limit, now_us);
  const auto* refusal = std::get_if<Refusal>(&begun);
  return refusal ? std::optional(*refusal) : std::nullopt;
}

TEST_SUITE("rate limits") {
  TEST_CASE(
      "rate limits: one second's requests pass at once, then the rate applies and refusals say how long to "
      "wait") {
    RateLimits limits;
    const RateLimit three{.rate = 3};
    for (int i = 0; i < 3; ++i) CHECK_FALSE(refused(limits, "a", three, 0));
    const auto fourth = refused(limits, "a", three, 0);
    REQUIRE(fourth);
    CHECK(fourth->kind == RefusalKind::over_quota);
    CHECK(fourth->code == "rate_limited");
    CHECK(fourth->retry_after_s == 1);
    CHECK_FALSE(refused(limits, "a", three, second / 2));
    CHECK(refused(limits, "a", three, second / 2));
    CHECK_FALSE(refused(limits, "b", three, second / 2));
    CHECK(refused(limits, "slow", {.rate = 0.1}, 0) == std::nullopt);
    CHECK(refused(limits, "slow", {.rate = 0.1}, second)->retry_after_s == 9);
  }

  TEST_CASE("rate limits: the configured number of requests may be unanswered") {
    RateLimits limits;
    const RateLimit two{.at_once = 2};
    CHECK_FALSE(refused(limits, "a", two, 0));
    CHECK_FALSE(refused(limits, "a", two, 0));
    CHECK(refused(limits, "a", two, 0)->code == "too_many_at_once");
    limits.end("a");
    CHECK_FALSE(refused(limits, "a", two, 0));
  }

  TEST_CASE("rate limits: a name without limits is not counted") {
    RateLimits limits;
    for (int i = 0; i < 100; ++i) CHECK_FALSE(refused(limits, std::to_string(i), {}, 0));
    limits.end("7");
    CHECK(limits.size() == 0);
  }

  TEST_CASE("rate limits: a request that began in the shared row ends there") {
    RateLimits limits(1);
    const RateLimit one{.at_once = 1};
    const std::string a = std::get<std::string>(limits.begin("a", one, 0)),
                      b = std::get<std::string>(limits.begin("b", one, 0));
    CHECK(a == "a");
    CHECK(b != "b");
    CHECK(refused(limits, "c", one, 0));
    limits.end(b);
    CHECK_FALSE(refused(limits, "c", one, 0));
  }

  TEST_CASE("rate limits: endless names take a bounded number of rows and share one bucket") {
    RateLimits limits(4);
    const RateLimit one{.rate = 1};
    for (int i = 0; i < 4; ++i) CHECK_FALSE(refused(limits, std::to_string(i), one, 0));
    CHECK_FALSE(refused(limits, "x", one, 0));
    CHECK(refused(limits, "y", one, 0));
    CHECK(limits.size() == 5);
    for (const char* name : {"0", "1", "2", "3", "x"}) limits.end(name);
    CHECK_FALSE(refused(limits, "y", one, 2 * second));  // idle names make way
    CHECK(limits.size() <= 5);
  }
}

}  // namespace rate_limits_test
