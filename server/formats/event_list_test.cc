#include "server/formats/event_list.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "server/formats/entity_tags.h"
#include "server/formats/word_tokens.h"

using namespace troupe;
using namespace troupe::server;

namespace event_list_test {

kernels::Vocabulary words() {
  return kernels::vocabulary_of("vocab.json", nlohmann::json::parse(R"({"<bos>":1,"<a_1>":2,"<b_\"2>":3})"),
                                10);
}
constexpr std::uint32_t events_max = 3;

AppendEvents events_of(const std::string& body) {
  const auto read = read_events(body, events_max, nullptr);
  REQUIRE(std::holds_alternative<AppendEvents>(read));
  return std::get<AppendEvents>(read);
}
std::string fault(const std::string& body) {
  const auto read = read_events(body, events_max, nullptr);
  REQUIRE(std::holds_alternative<Refusal>(read));
  const auto& refusal = std::get<Refusal>(read);
  return refusal.code + " " + refusal.where;
}

TEST_SUITE("events") {
  TEST_CASE("events: a list of events becomes columns") {
    const AppendEvents events =
        events_of(R"({"events":[{"id":"e1","item":"50","timestamp":7,"dwell":2},{"item":"9","dwell":-1,)"
                  R"("timestamp":8}]})");
    CHECK(events.history == std::vector<std::string>{"50", "9"});
    CHECK(events.event_ids == std::vector<std::string>{"e1", ""});
    REQUIRE(events.features.size() == 2);
    for (const Feature& feature : events.features)
      CHECK(feature.values == (feature.name == "timestamps" ? std::vector<std::int64_t>{7, 8}
                                                            : std::vector<std::int64_t>{2, -1}));
    CHECK(events_of(R"({"events":[{"item":"9"}]})").event_ids.empty());
    CHECK(events_of(R"({"events":[{"tokens":[4]},{"tokens":[5]}]})").tokens == std::vector<Token>{4, 5});
    CHECK(events_of(R"({"events":[],"user":"ana"})").user == "ana");
  }

  TEST_CASE("events: the maximum of events with all features fits, and one more is too many") {
    std::string one = R"({"item":"9","id":"e")";
    for (int i = 0; i < 16; ++i) one += ",\"f" + std::to_string(i) + "\":" + std::to_string(i);
    one += "}";
    std::string all = one;
    for (std::uint32_t i = 1; i < events_max; ++i) all += "," + one;
    const AppendEvents events = events_of(R"({"user":"ana","events":[)" + all + "]}");
    CHECK(events.history.size() == events_max);
    CHECK(events.features.size() == 16);  // the most of any model
    CHECK(fault(R"({"events":[)" + all + R"(,{"item":"9"}]})") == "too_many_events events");
    CHECK(events_of(R"({"events":[{"tokens":[0]}]})").tokens == std::vector<Token>{0});
  }

  TEST_CASE("events: an invalid list is refused, naming the place") {
    CHECK(fault("[") == "malformed_json byte 2");
    CHECK(fault("[]") == "wrong_type body");
    CHECK(fault("{}") == "missing_field events");
    CHECK(fault(R"({"events":{}})") == "wrong_type events");
    CHECK(fault(R"({"events":[1]})") == "wrong_type events[0]");
    CHECK(fault(R"({"events":[{"id":"e"}]})") == "missing_field events[0].item");
    CHECK(fault(R"({"events":[{"item":"a"},{"item":7}]})") == "wrong_type events[1].item");
    CHECK(fault(R"({"events":[{"item":"a","timestamp":"now"}]})") == "wrong_type events[0].timestamp");
    CHECK(fault(R"({"events":[{"item":"a","timestamp":1.5}]})") == "wrong_type events[0].timestamp");
    CHECK(fault(R"({"events":[{"item":"a"},{"item":"a","timestamp":1}]})") ==
          "unknown_field events[1].timestamp");
    CHECK(fault(R"({"events":[{"item":"a","timestamp":1},{"item":"a"}]})") == "missing_field events");
    CHECK(fault(R"({"events":[{"item":"a"},{"tokens":[1]}]})") == "ambiguous_history events");
    CHECK(fault(R"({"events":[{"item":"a","item":"b"}]})") == "malformed_json item");
    CHECK(fault(R"({"events":[],"tenant":"t"})") == "tenant_in_body tenant");
    CHECK(fault(R"({"events":[],"eventz":[]})") == "unknown_field eventz");
    CHECK(fault(R"({"events":[{"item":"a"},{"item":"a"},{"item":"a"},{"item":"a"}]})") ==
          "too_many_events events");
    CHECK(fault("{\"events\":[" + std::string(4000, '[')).starts_with("too_many_values"));
    CHECK(fault(R"({"events":[{"item":"a","tokens":[1],"tokens":[2]}]})") == "malformed_json tokens");
    CHECK(fault(R"({"events":[],"events":[]})") == "malformed_json events");
    CHECK(fault(R"({"events":[{"item":"a","n":1e999}]})") == "wrong_type events[0].n");
    CHECK(fault(std::string(R"({"events":[]})") + '\0' + "x") == "malformed_json byte 14");
  }

  TEST_CASE("events: times and other numbers follow the rules of all rows") {
    const auto what = [](const std::string& number) {
      const auto read =
          read_events("{\"events\":[{\"item\":\"a\",\"timestamp\":" + number + "}]}", events_max, nullptr);
      const auto* refusal = std::get_if<Refusal>(&read);
      return refusal ? refusal->code + ": " + refusal->what : "";
    };
    CHECK(what("1099511627776") == "");
    CHECK(what("1588687728923") ==
          "bad_timestamp: events[0].timestamp is 1588687728923, which looks like milliseconds");
    CHECK(what("-1") == "bad_timestamp: events[0].timestamp is -1");
    CHECK(what("18446744073709551615") == "bad_timestamp: events[0].timestamp is 18446744073709551615");
    CHECK(what("881250949.90") == "wrong_type: events[0].timestamp is 881250949.90");
    CHECK(what("1e300") == "wrong_type: events[0].timestamp is 1e300");
    CHECK(what("\"2020-05-05T14:08:48Z\"") == "wrong_type: events[0].timestamp is string");
    CHECK(fault(R"({"events":[{"item":"a","action":-1}]})") == "wrong_type events[0].action");
    CHECK(fault(R"({"events":[{"item":"a"},{"tokens":[1.5]}]})") == "wrong_type events[1].tokens[0]");
    CHECK(fault("\xef\xbb\xbf{\"events\":[]}") == "malformed_json byte 1");
  }

  TEST_CASE("events: a list is refused at its first event too many, whatever follows") {
    CHECK(fault(R"({"events":[{},{},{},{},nonsense)") == "too_many_events events");
    CHECK(fault(R"({"events":[{},{},{}],nonsense)") == "malformed_json byte 23");
  }

  TEST_CASE("events: words of the vocabulary stand for tokens") {
    const kernels::Vocabulary vocabulary = words();
    const auto read = read_events(R"({"events":[{"tokens":["<a_1>"]}]})", events_max, &vocabulary);
    CHECK(std::get<AppendEvents>(read).tokens == std::vector<Token>{2});
    const auto rewritten = [&](const std::string& body) {
      const auto numbers = with_numbers(body, &vocabulary, 9);
      const auto* refusal = std::get_if<Refusal>(&numbers);
      return refusal ? refusal->code + " " + refusal->where : std::get<std::string>(numbers);
    };
    CHECK(rewritten(R"({"title":"<a_1>", "tokens": ["<a_1>",7, "<b_\"2>"],"identifier":"<bos>"})") ==
          R"({"title":"<a_1>", "tokens": [2,7, 3],"identifier":1})");
    CHECK(rewritten(R"({"tokens":["<a_1>","<none>"]})") == "unknown_word tokens[1]");
    CHECK(rewritten(R"({"identifier":"x"})") == "unknown_word identifier");
    CHECK(rewritten(R"({"other":["<none>"],"tokens":"<a_1>)") == R"({"other":["<none>"],"tokens":"<a_1>)");
    CHECK(with_words(R"({"a":1})", std::vector<Token>{2, 5}, &vocabulary) ==
          R"({"a":1,"words":["<a_1>",""]})");
    CHECK(with_words(R"({"a":1})", std::vector<Token>{2}, nullptr) == R"({"a":1})");
  }

  TEST_CASE("conditions: versions are entity tags") {
    const auto condition = [](std::string_view match, std::string_view none) {
      return std::get<Condition>(condition_of(match, none));
    };
    CHECK(condition("", "") == Condition{});
    CHECK(condition(" \"7\" ", "") == Condition{.version = 7});
    CHECK(condition("*", "") == Condition{.present = true});
    CHECK(condition("", "*") == Condition{.absent = true});
    for (const char* bad :
         {"7", "\"\"", "\"0\"", "\"7", "W/\"7\"", "\"7\", \"8\"", "\"-7\"", "\"99999999999999999999\""})
      CHECK(std::get<Refusal>(condition_of(bad, "")).code == "bad_condition");
    CHECK(std::get<Refusal>(condition_of("", "\"7\"")).where == "if-none-match");
    CHECK(std::get<Refusal>(condition_of("*", "*")).where == "if-match");
    CHECK(has_already("\"6\", W/\"7\"", etag_of(7)));
    CHECK(has_already("*", etag_of(7)));
    CHECK_FALSE(has_already("\"6\"", etag_of(7)));
    CHECK_FALSE(has_already("", etag_of(7)));
  }
}

}  // namespace event_list_test
