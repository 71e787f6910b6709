#include "runtime/actor/row_rules.h"

#include <doctest/doctest.h>

using namespace troupe;

namespace {

// Returns the number, or the refusal as "code: what".
std::string read(std::string_view written, const NumberRule& rule = number_rule("timestamps")) {
  const auto number = read_number(written, rule, "n");
  if (const auto* value = std::get_if<std::int64_t>(&number)) return std::to_string(*value);
  const auto& refusal = std::get<Refusal>(number);
  CHECK(refusal.where == "n");
  CHECK(refusal.expected == expected_number(rule));
  return refusal.code + ": " + refusal.what;
}

}  // namespace

TEST_CASE("row rules: a whole number is written as in JSON") {
  CHECK(read("0") == "0");
  CHECK(read("1099511627776") == "1099511627776");
  for (const char* bad :
       {"1.0", "1e3", "+1", "01", "00", "-", "", " 1", "1 ", "0x1", "NaN", "inf", "1,000", "-01"}) {
    CAPTURE(bad);
    CHECK(read(bad) == std::string("wrong_type: n is ") + (*bad ? bad : "\"\""));
  }
  CHECK(read("-9223372036854775808", {}) == "-9223372036854775808");
  CHECK(read("9223372036854775808", {}) == "wrong_type: n is 9223372036854775808");
  CHECK(read("-0", {}) == "0");
  CHECK(read(std::string(500, '9'), {}) == "wrong_type: n is " + std::string(64, '9'));
}

TEST_CASE("row rules: times are seconds since 1970, and a number of another unit is named") {
  CHECK(read("-1") == "bad_timestamp: n is -1");
  CHECK(read("1099511627777") == "bad_timestamp: n is 1099511627777, which looks like milliseconds");
  CHECK(read("1588687728923000") == "bad_timestamp: n is 1588687728923000, which looks like microseconds");
  CHECK(read("1588687728923000000") ==
        "bad_timestamp: n is 1588687728923000000, which looks like nanoseconds");
  CHECK(read("18446744073709551615") == "bad_timestamp: n is 18446744073709551615");
  CHECK(number_rule("request_timestamp").is_time);
  CHECK(number_rule("timestamp").is_time);
  CHECK(read("-1", number_rule("actions")) == "wrong_type: n is -1");
  CHECK(read("-1", number_rule("dwell")) == "-1");
}

TEST_CASE("row rules: ids and tokens") {
  CHECK(reject_id("", "user", 256)->code == "empty_user");
  CHECK_FALSE(reject_id(std::string(256, 'x'), "item", 256));
  CHECK(reject_id(std::string(257, 'x'), "item", 256)->code == "id_too_long");
  CHECK(reject_id(std::string_view("a\0b", 3), "user", 256)->code == "wrong_type");
  CHECK_FALSE(reject_token(9, 10, "tokens[0]"));
  CHECK(reject_token(10, 10, "tokens[0]")->expected == "0..9");
  CHECK(reject_token(-1, 10, "identifier")->where == "identifier");
}

TEST_CASE("row rules: values of each message, wherever they stand") {
  CHECK_FALSE(reject_values(PutUser{.features = {{"timestamps", {0, row_time_max}}}}));
  CHECK(reject_values(PutUser{.features = {{"dwell", {-1}}, {"timestamps", {1, -1}}}})->where ==
        "timestamps[1]");
  CHECK(reject_values(AppendEvents{.features = {{"actions", {-1}}}})->where == "actions[0]");
  CHECK(reject_values(RankRequest{.request_timestamp = row_time_max + 1})->code == "bad_timestamp");
  CHECK(reject_values(RankRequest{.candidates = {"a", std::string(1, '\0')}})->where == "candidates[1]");
  CHECK(reject_values(RankRequest{.history = {std::string(1, '\0')}})->where == "history[0]");
  CHECK(reject_values(GenerateRequest{.deny = {std::string(1, '\0')}})->where == "deny[0]");
  CHECK(reject_values(PutItem{.title = std::string("a\0b", 3)})->where == "title");
  CHECK_FALSE(reject_values(ScoreRequest{}));
}
