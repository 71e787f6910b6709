#include "server/observability/observed_request.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace troupe;
using namespace troupe::server;

namespace {

ObservedRequest ranked() {
  ObservedRequest request{.request_id = "r\"1",
                          .trace = {1, 2, 3, true},
                          .parent = 9,
                          .method = "POST",
                          .route = "/v1/rank",
                          .tenant = "<b>",
                          .status = 200,
                          .began_us = 1'000'000,
                          .took_us = 500};
  request.run = {"rank", "item", 4, {.features = 100, .blocks = 50, .compute = 200}, 40, 30};
  return request;
}

}  // namespace

TEST_SUITE("observed requests") {
  TEST_CASE("access log: numbers are written as numbers") {
    for (const LogField& field : access_fields(ranked())) {
      CAPTURE(field.name);
      const bool is_text = field.name == "request_id" || field.name == "trace_id" || field.name == "method" ||
                           field.name == "route" || field.name == "tenant" || field.name == "plan";
      CHECK(field.is_number == !is_text);
    }
    CHECK(access_fields({.status = 404, .code = "unknown_user"}).back().value == "unknown_user");
  }

  TEST_CASE("access log: the setting decides which requests are logged") {
    CHECK_FALSE(is_logged(AccessLog::off, {.status = 500}));
    CHECK(is_logged(AccessLog::errors, {.status = 404}));
    CHECK_FALSE(is_logged(AccessLog::errors, {.status = 200}));
    CHECK(is_logged(access_log("all"), {.status = 200}));
  }

  TEST_CASE(
      "access log: a flood of errors has a burst of lines, then a few per second, and the rest counted") {
    ErrorLines lines;
    std::uint32_t written = 0;
    for (int i = 0; i < 1000; ++i) written += lines.take(5'000'000);
    CHECK(written == ErrorLines::burst);
    CHECK(lines.take_left_out() == 1000 - ErrorLines::burst);
    CHECK(lines.take_left_out() == 0);
    CHECK(lines.take(5'100'000));
    CHECK_FALSE(lines.take(5'100'000));
    for (int i = 0; i < 1000; ++i) written += lines.take(7'100'000);
    CHECK(written == ErrorLines::burst + 2 * ErrorLines::per_second);
    CHECK_FALSE(lines.take(0));  // a clock that goes back
  }

  TEST_CASE("spans: a request has the server's span, with one child for each stage in order") {
    const auto spans = nlohmann::json::parse("[" + spans_of(ranked()) + "]");
    REQUIRE(spans.size() == 4);
    CHECK(spans[0]["name"] == "POST /v1/rank");
    CHECK(spans[0]["parentSpanId"] == "0000000000000009");
    CHECK(spans[0]["endTimeUnixNano"] == "1000500000");
    CHECK(spans[1]["name"] == "features");
    CHECK(spans[1]["parentSpanId"] == spans[0]["spanId"]);
    CHECK(spans[2]["startTimeUnixNano"] == spans[1]["endTimeUnixNano"]);
    CHECK(spans[3]["endTimeUnixNano"] == "1000350000");
    CHECK(spans[0]["kind"] == 2);  // server
    for (std::size_t i = 1; i < spans.size(); ++i) CHECK(spans[i]["kind"] == 1);
    CHECK(spans[2]["name"] == "blocks");
    CHECK(spans[3]["name"] == "compute");
    CHECK(spans[0]["status"]["code"] == 0);
    for (const auto& span : spans) CHECK(span["traceId"] == "00000000000000010000000000000002");
  }

  TEST_CASE("spans: a span names the request, its outcome and its figures") {
    ObservedRequest request = ranked();
    request.model = "m";
    request.status = 500;
    request.code = "broken";
    const auto span = nlohmann::json::parse("[" + spans_of(request) + "]")[0];
    CHECK(span["status"]["code"] == 2);
    std::string all;
    for (const auto& each : span["attributes"])
      all += each["key"].get<std::string>() + "=" + each["value"].begin().value().get<std::string>() + " ";
    CHECK(all ==
          "http.request.method=POST http.route=/v1/rank http.response.status_code=500 troupe.request_id=r\"1 "
          "troupe.tenant=<b> "
          "troupe.model=m troupe.code=broken troupe.plan=item troupe.node=4 troupe.tokens_total=40 "
          "troupe.tokens_reused=30 ");
    request.status = 499;
    CHECK(nlohmann::json::parse("[" + spans_of(request) + "]")[0]["status"]["code"] == 0);
  }

  TEST_CASE("access log: every figure has its name") {
    ObservedRequest request = ranked();
    request.model = "m";
    request.code = "c";
    request.bytes_in = 7;
    request.bytes_out = 8;
    request.run.timings = {.features = 1, .lookup = 2, .blocks = 3, .queue = 4, .compute = 5, .turn = 6};
    std::string all;
    for (const LogField& field : access_fields(request))
      if (field.name != "trace_id") all += field.name + "=" + field.value + " ";
    CHECK(all ==
          "request_id=r\"1 method=POST route=/v1/rank tenant=<b> status=200 us=500 bytes_in=7 bytes_out=8 "
          "model=m code=c plan=item "
          "node=4 tokens=40 tokens_reused=30 features_us=1 lookup_us=2 turn_us=6 blocks_us=3 queue_us=4 "
          "compute_us=5 ");
  }

  TEST_CASE("spans: an unsampled request has none") {
    ObservedRequest request = ranked();
    request.trace.sampled = false;
    CHECK(spans_of(request) == "");
  }
}
