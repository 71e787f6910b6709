#include "server/observability/openapi.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

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
