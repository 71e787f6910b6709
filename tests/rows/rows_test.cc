// One rule for a row: the same row through every reader is the same value or the same refusal
// (docs/reference/rows.md). Rows are drawn, valid ones and ones with a fault.
//
//   rows_test [--rows 100000] [--seed 7] [doctest's options]
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "runtime/testing/store_test_folder.h"
#include "tests/rows/row_readers.h"

namespace troupe::rows {
namespace {

std::uint64_t rows_drawn = 2'000, seed = 46;

std::string describe(const DrawnRow& row, const std::vector<Outcome>& outcomes) {
  std::string text = row.fault.empty() ? "no fault" : row.fault;
  for (const Outcome& outcome : outcomes) text += "\n  " + outcome.text();
  return text + "\n  " + json_of(row, row.kind == Kind::item ? "item" : "user").substr(0, 400);
}

// Returns why the readers disagree; "" if they agree.
std::string disagreement(const DrawnRow& row, const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    if (outcome.value.has_value() != row.fault.empty())
      return outcome.reader + (outcome.value ? " takes a row with a fault" : " refuses a valid row");
    if (row.fault.empty() && *outcome.value != *outcomes.front().value)
      return outcome.reader + " and " + outcomes.front().reader + " read different values";
    if (row.fault.empty() || row.agreement == Agreement::refused) continue;
    if (!outcome.reason || !outcomes.front().reason || *outcome.reason != *outcomes.front().reason)
      return outcome.reader + " and " + outcomes.front().reader + " refuse it for different reasons";
  }
  return "";
}

}  // namespace

TEST_CASE("rows: the same row is the same value or the same refusal, whichever way it comes") {
  const TestFolder folder;
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  std::map<std::string, std::uint64_t> readers, faults;
  std::uint64_t bad = 0;
  for (std::uint64_t i = 0; i < rows_drawn && bad < 10; ++i) {
    const DrawnRow row = draw_row(random);
    const std::vector<Outcome> outcomes = read_everywhere(row, (folder.path() / "rows").string());
    for (const Outcome& outcome : outcomes) ++readers[outcome.reader];
    ++faults[row.fault];
    const std::string why = disagreement(row, outcomes);
    bad += !why.empty();
    CAPTURE(i);
    CHECK_MESSAGE(why.empty(), why << ": " << describe(row, outcomes));
  }
  if (bad > 0 || rows_drawn < 2'000) return;
  CHECK(readers.size() == 13);
  CHECK(faults.size() == 31);
  for (const auto& [fault, times] : faults) CHECK_MESSAGE(times > 2, fault << ": " << times);
}

// Each decision of docs/reference/rows.md that concerns one row, with a row that only this decision refuses.
TEST_CASE("rows: each decision refuses a row of its own") {
  struct Decision {
    const char *name, *members, *expected;  // members behind the id; code and field
  };
  const Decision decisions[] = {
      {"a member twice", R"("history":[],"history":[])", "malformed_json history"},
      {"both names of the id", R"("user":"u","history":[])", "malformed_json user"},
      {"an unknown member", R"("history":[],"age":7)", "unknown_field age"},
      {"a missing list", R"("timestamps":[])", "missing_field history or tokens"},
      {"null", R"("history":null)", "wrong_type history"},
      {"a number for an id", R"("history":[50])", "wrong_type history[0]"},
      {"a fraction", R"("history":["a"],"timestamps":[1.5],"actions":[1])", "wrong_type timestamps[0]"},
      {"a whole number with a point", R"("history":["a"],"timestamps":[1.0],"actions":[1])",
       "wrong_type timestamps[0]"},
      {"an exponent", R"("history":["a"],"timestamps":[1e9],"actions":[1])", "wrong_type timestamps[0]"},
      {"a huge exponent", R"("history":["a"],"timestamps":[1e999],"actions":[1])",
       "wrong_type timestamps[0]"},
      {"a negative time", R"("history":["a"],"timestamps":[-1],"actions":[1])",
       "bad_timestamp timestamps[0]"},
      {"milliseconds", R"("history":["a"],"timestamps":[1588687728923],"actions":[1])",
       "bad_timestamp timestamps[0]"},
      {"milliseconds in the list features",
       R"("history":["a"],"features":[{"name":"timestamps","values":[1588687728923]}])",
       "bad_timestamp timestamps[0]"},
      {"beyond 64 bits", R"("history":["a"],"timestamps":[99999999999999999999],"actions":[1])",
       "bad_timestamp timestamps[0]"},
      {"a negative action", R"("history":["a"],"timestamps":[1],"actions":[-1])", "wrong_type actions[0]"},
      {"NaN", R"("history":["a"],"timestamps":[NaN])", "malformed_json byte"},
      {"a leading zero", R"("history":["a"],"timestamps":[01])", "malformed_json byte"},
      {"times out of order", R"("history":["a","b"],"timestamps":[2,1],"actions":[1,1])",
       "bad_feature timestamps[1]"},
      {"a value too few", R"("history":["a"],"timestamps":[],"actions":[1])", "bad_feature timestamps"},
      {"a feature too few", R"("history":["a"],"timestamps":[1])", "missing_feature actions"},
      {"a list too long", R"("history":["a","a","a","a","a","a"])", "too_many_events history"},
      {"too deep", R"("history":[[]])", "wrong_type history[0]"},
      {"U+0000", R"("history":["a\u0000"])", "wrong_type history[0]"},
      {"half a surrogate pair", R"("history":["\ud800"])", "malformed_json byte"},
      {"not UTF-8", "\"history\":[\"\xff\"]", "malformed_json byte"},
      {"a control character", "\"history\":[\"a\tb\"]", "malformed_json byte"}};
  const TestFolder folder;
  for (const Decision& decision : decisions) {
    CAPTURE(decision.name);
    const std::string json = std::string(R"({"id":"u",)") + decision.members + "}";
    for (const Outcome& outcome : read_text(json, (folder.path() / "rows").string())) {
      CAPTURE(outcome.text());
      REQUIRE(outcome.reason);
      CHECK(outcome.reason->code + " " + outcome.reason->field == decision.expected);
    }
  }
}

}  // namespace troupe::rows

int main(int argc, char** argv) {
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    std::uint64_t* const number = std::strcmp(argv[i], "--rows") == 0   ? &troupe::rows::rows_drawn
                                  : std::strcmp(argv[i], "--seed") == 0 ? &troupe::rows::seed
                                                                        : nullptr;
    if (!number)
      rest.push_back(argv[i]);
    else if (++i < argc)
      *number = std::strtoull(argv[i], nullptr, 10);
  }
  return doctest::Context(static_cast<int>(rest.size()), rest.data()).run();
}
