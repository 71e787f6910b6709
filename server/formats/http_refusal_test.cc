#include "server/formats/http_refusal.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace troupe;
using namespace troupe::server;

namespace {

nlohmann::json error_of(RefusalKind kind) { return nlohmann::json::parse(to_json({kind}))["error"]; }

}  // namespace

TEST_SUITE("HTTP refusals") {
  TEST_CASE("HTTP refusals: an error has its documented form") {
    CHECK(to_json({RefusalKind::not_found, "unknown_user", "no such user", "user", "a stored user"}) ==
          R"({"error":{"status":404,"code":"unknown_user","message":"no such user","where":"user",)"
          R"("expected":"a stored user","type":"invalid_request_error","param":"user"}})");
    CHECK(to_json({RefusalKind::unavailable, "c", "w", "a", "e", 7}).find("7") == std::string::npos);
  }

  TEST_CASE("HTTP refusals: text that is not UTF-8 or has quotes is still JSON") {
    const auto json = nlohmann::json::parse(to_json({RefusalKind::malformed, "c", "\"é\xff", "a\n", "e"}));
    CHECK(json["error"]["message"] == "\"é\xef\xbf\xbd");
    CHECK(json["error"]["where"] == "a\n");
  }

  TEST_CASE("HTTP refusals: each kind has a status and the type that OpenAI's clients expect") {
    const auto row = [](RefusalKind kind) {
      const auto error = error_of(kind);
      CHECK(error["status"] == http_status(kind));
      return std::to_string(http_status(kind)) + " " + error["type"].get<std::string>();
    };
    CHECK(row(RefusalKind::malformed) == "400 invalid_request_error");
    CHECK(row(RefusalKind::unauthenticated) == "401 authentication_error");
    CHECK(row(RefusalKind::forbidden) == "403 permission_error");
    CHECK(row(RefusalKind::not_found) == "404 invalid_request_error");
    CHECK(row(RefusalKind::wrong_method) == "405 invalid_request_error");
    CHECK(row(RefusalKind::conflict) == "409 invalid_request_error");
    CHECK(row(RefusalKind::precondition_failed) == "412 invalid_request_error");
    CHECK(row(RefusalKind::too_large) == "413 invalid_request_error");
    CHECK(row(RefusalKind::unsupported_media) == "415 invalid_request_error");
    CHECK(row(RefusalKind::unprocessable) == "422 invalid_request_error");
    CHECK(row(RefusalKind::over_quota) == "429 rate_limit_error");
    CHECK(row(RefusalKind::header_too_large) == "431 invalid_request_error");
    CHECK(row(RefusalKind::internal) == "500 server_error");
    CHECK(row(RefusalKind::unsupported) == "501 server_error");
    CHECK(row(RefusalKind::unavailable) == "503 server_error");
    CHECK(row(RefusalKind::deadline_exceeded) == "504 server_error");
  }
}
