#include "server/observability/slowest.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace troupe::server;

namespace {

nlohmann::json requests_of(const SlowestRequests& slowest, std::int64_t now_us) {
  return nlohmann::json::parse(slowest.to_json(now_us)).at("requests");
}

}  // namespace

TEST_SUITE("slowest requests") {
  TEST_CASE("slowest requests: they come first, and their number is bounded") {
    SlowestRequests slowest;
    for (int i = 0; i < 10'000; ++i)
      slowest.add(std::int64_t{i} * 20'000,
                  {.request_id = std::to_string(i), .status = 200, .took_us = (i * 7919) % 10'000});
    const auto requests = requests_of(slowest, 200'000'000);
    REQUIRE(requests.size() == 16);
    CHECK(requests[0]["us"] == 9999);
    for (std::size_t i = 1; i < requests.size(); ++i) CHECK(requests[i - 1]["us"] >= requests[i]["us"]);
  }

  TEST_CASE("slowest requests: they are forgotten after five minutes") {
    SlowestRequests slowest;
    slowest.add(10'000'000, {.took_us = 5'000'000});
    slowest.add(200'000'000, {.took_us = 10});
    CHECK(requests_of(slowest, 200'000'000)[0]["us"] == 5'000'000);
    CHECK(requests_of(slowest, 320'000'000)[0]["us"] == 10);
    slowest.add(610'000'000, {.took_us = 7});
    CHECK(requests_of(slowest, 610'000'000).size() == 1);
  }

  TEST_CASE("slowest requests: a tenant sees its own, also if others have slower ones") {
    SlowestRequests slowest;
    for (int i = 0; i < 40; ++i)
      slowest.add(std::int64_t{i} * 5'000'000,
                  {.tenant = i % 4 == 0 ? "acme" : "b", .took_us = 1000 * (i % 4)});
    CHECK(slowest.to_json(200'000'000, "") == "{\"requests\":[]}");
    const auto own = nlohmann::json::parse(slowest.to_json(200'000'000, "acme")).at("requests");
    CHECK(own.size() == 10);
    for (const auto& request : own) CHECK(request["tenant"] == "acme");
  }

  TEST_CASE("slowest requests: names from outside stay text") {
    SlowestRequests slowest;
    slowest.add(0, {.request_id = "\"},{",
                    .tenant = "</script><img src=x onerror=alert(1)>",
                    .status = 429,
                    .code = "x",
                    .took_us = 1});
    const auto one = requests_of(slowest, 2'000'000)[0];
    CHECK(one["request"] == "\"},{");
    CHECK(one["tenant"] == "</script><img src=x onerror=alert(1)>");
    CHECK(one["ago_ms"] == 2000);
  }
}
