#include "runtime/wire/json_bounds.h"

#include <doctest/doctest.h>

using namespace troupe;

TEST_CASE("JSON bounds: too many values or levels are found before a tree is built") {
  const auto excess = [](std::string_view json) {
    return exceeded_bound(json, {.values_max = 5, .depth_max = 3});
  };
  CHECK(excess("") == "");
  CHECK(excess("[0,0,0,0]") == "");
  CHECK(excess("[0,0,0,0,0]") == "more than 5 values");
  CHECK(excess(R"({"a":[1]})") == "");
  CHECK(excess(R"({"a":1,"b":2})") == "");
  CHECK(excess(R"({"a":1,"b":2,"c":3})") == "more than 5 values");
  CHECK(excess("[[[]]]") == "");
  CHECK(excess("[[[[") == "more than 3 levels");
  CHECK(excess(R"(["[[[[,,,,\"[[[[,,,,\\"])") == "");
  CHECK(excess(R"(["\)") == "");
  CHECK(excess("]]]]]]") == "");
}
