#include "server/observability/openapi.h"

#include "server/observability/openapi_errors.h"
#include "server/observability/openapi_examples.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

using namespace troupe::server;
using nlohmann::json;

namespace {

void check_references(const json& of, const json& schemas) {
  if (of.is_object() && of.contains("$ref")) {
    const std::string name = of["$ref"].get<std::string>(), prefix = "#/components/schemas/";
    if (name.starts_with(prefix)) CHECK_MESSAGE(schemas.contains(name.substr(prefix.size())), name);
  }
  for (const json& part : of)
    if (part.is_structured()) check_references(part, schemas);
}

}  // namespace

TEST_SUITE("OpenAPI") {
  TEST_CASE("OpenAPI: every referenced schema exists") {
    const json api = json::parse(openapi());
    CHECK(api["openapi"] == "3.1.0");
    check_references(api, api["components"]["schemas"]);
    for (const ApiPath& path : api_paths())
      CHECK_MESSAGE(api["paths"][std::string(path.path)].contains(std::string(path.method)), path.path);
  }

  TEST_CASE("OpenAPI: each operation has a name of its own, error statuses with codes, and valid examples") {
    const json api = json::parse(openapi());
    std::set<std::string> names;
    for (const auto& [path, methods] : api["paths"].items())
      for (const auto& [method, of] : methods.items()) {
        CAPTURE(method + " " + path);
        CHECK(names.insert(of["operationId"].get<std::string>()).second);
        const bool has_body = of.contains("requestBody");
        CHECK(has_body == (method == "put" || method == "post"));
        for (const char* status : {"400", "401", "429", "503"}) CHECK(of["responses"].contains(status));
        CHECK(of["responses"].contains("413") == has_body);
      }
    for (const ApiPath& path : api_paths()) {
      const ApiExample example = api_example(path.method, path.path);
      CHECK_MESSAGE((path.body.empty() || path.path == "/v1/tokenize" || !example.request.empty()),
                    path.path);
      if (!example.request.empty()) CHECK(json::accept(example.request));
    }
  }

  TEST_CASE("OpenAPI: the errors of a status have its codes, and an example that is one of them") {
    const json responses = json::parse(openapi())["components"]["responses"];
    CHECK(responses.size() == api_errors().size());
    for (const ApiError& error : api_errors()) {
      const json& content = responses["Error" + std::to_string(error.status)]["content"]["application/json"];
      const json& own = content["schema"]["allOf"][1]["properties"]["error"]["properties"];
      const auto codes = own["code"]["anyOf"][0]["enum"].get<std::set<std::string>>();
      CHECK(own["status"]["const"] == error.status);
      CHECK(content["example"]["error"]["status"] == error.status);
      CHECK(codes.contains(content["example"]["error"]["code"].get<std::string>()));
    }
  }

  TEST_CASE("OpenAPI: bodies have the wire schemas, without internal members") {
    const json schemas = json::parse(openapi())["components"]["schemas"];
    const json& asked = schemas["RankRequest"]["properties"];
    CHECK(asked.contains("budget_us"));
    CHECK_FALSE(asked.contains("tenant"));
    CHECK_FALSE(asked.contains("trace"));
    const json& reply = schemas["RankReply"];
    CHECK(reply["properties"]["items"]["items"]["$ref"] == "#/components/schemas/RankedItem");
    const auto required = reply["required"].get<std::vector<std::string>>();
    CHECK(std::ranges::find(required, "timings") != required.end());
    CHECK(std::ranges::find(required, "tasks") == required.end());
    CHECK(schemas["StatusReply"]["properties"]["role"]["enum"].size() == 6);
  }
}
