#include "deploy/reports/explanation_report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

using namespace troupe::deploy;
using nlohmann::json;

namespace explanation_report_test {

// Returns what is printed, without blanks at the ends of lines.
std::string printed(const json& reply, const ExplanationLayout& layout = {}) {
  std::ostringstream out;
  print_explanation(reply, layout, out);
  std::string text;
  for (const char c : out.str()) {
    if (c == '\n') text.erase(text.find_last_not_of(' ') + 1);
    text += c;
  }
  return text;
}

// A ranking of two items under item first: one block is pulled, and a repair computes a token again.
json ranking() {
  return json::parse(R"({
    "user": "ana", "arrangement": "item_first", "plan": "item", "policy": "bat", "model_version": "m1",
    "tokens_total": 8, "tokens_computed": 5, "tokens_reused": 3, "approximate": 0,
    "items": [{"id": "b", "title": "", "score": 1.5, "probability": 0.9},
              {"id": "a", "title": "", "score": -0.25, "probability": 0.1}],
    "explanation": {
      "segments": [
        {"kind": "system", "item": "", "tokens": [1], "texts": ["<bos>"], "start": 0,
         "computed_at": 0, "sees": [], "source": "cached", "node": 0, "block": "0123456789abcdef"},
        {"kind": "item", "item": "a", "tokens": [5, 6], "texts": ["<a_5>", "<b_6>"], "start": 1,
         "computed_at": 1, "sees": [{"begin": 0, "end": 1}], "source": "pulled", "node": 3,
          "block": "fedcba9876543210"},
        {"kind": "item", "item": "a", "tokens": [5], "texts": ["<a_5>"], "start": 1, "computed_at": 1,
         "sees": [{"begin": 0, "end": 1}], "replaces": [{"segment": 1, "begin": 0, "end": 1}],
         "source": "computed", "node": 0, "block": ""},
        {"kind": "item", "item": "b", "tokens": [7], "texts": ["<a_7>"], "start": 1, "computed_at": 1,
         "sees": [{"begin": 0, "end": 1}], "source": "computed", "node": 0, "block": "aa"},
        {"kind": "user", "item": "", "tokens": [9, 9], "texts": ["<user>", "<user>"], "start": 3,
         "computed_at": 3, "sees": [{"begin": 0, "end": 4}], "source": "computed", "node": 0, "block": ""},
        {"kind": "discriminant", "item": "", "tokens": [2], "texts": ["<disc>"], "start": 5, "computed_at": 5,
         "sees": [{"begin": 0, "end": 1}, {"begin": 2, "end": 5}], "source": "computed", "node": 0,
         "block": ""}],
      "scores": [{"item": "a", "task": "", "segment": 5, "offset": 0, "rows": [40], "head": 0},
                 {"item": "b", "task": "", "segment": 5, "offset": 0, "rows": [41], "head": 0}],
      "positions_max": 512, "cut": ""}})");
}

TEST_SUITE("explanation report") {
  TEST_CASE("report: it shows the segments, what each sees, where it came from, and where scores are read") {
    CHECK("\n" + printed(ranking()) == R"(
arrangement item_first, plan item, policy bat, model version m1
tokens 8: computed 5, reused 3; positions 0..5 of 512

#  part          item  positions  tokens  sees        source                block     text
-  ------------  ----  ---------  ------  ----------  --------------------  --------  -------------
0  system              0               1  nothing     cached                01234567  <bos>
1  item          a     1..2            2  all before  pulled from node 3    fedcba98  <a_5> <b_6>
2  item          a     1               1  0           computed, for 0 of 1            <a_5>
3  item          b     1               1  0           computed              aa        <a_7>
4  user                3..4            2  all before  computed                        <user> <user>
5  discriminant        5               1  0, 2-4      computed                        <disc>

item  read at  position  value            score
----  -------  --------  -----------  ---------
a         5.0         5  logit of 40  -0.250000
b         5.0         5  logit of 41   1.500000

cut: nothing
)");
  }

  TEST_CASE(
      "report: a long text is shortened to the columns, and a tokenizer's texts are joined as they are") {
    json reply = ranking();
    json& user = reply["explanation"]["segments"][4];
    user["texts"] = {"hiking", " boots\nand a very long tail that nobody reads"};
    const std::string text = printed(reply, {.columns = 110});
    CHECK(text.find("hiking boots\\nand a ver…") != std::string::npos);
    CHECK(text.find("<a_5><b_6>") != std::string::npos);
    CHECK(printed(reply, {.columns = 10}).find("hiking boots\\nand a…") != std::string::npos);
  }

  TEST_CASE("report: without texts it shows ids, with --tokens every token") {
    json reply = ranking();
    for (json& segment : reply["explanation"]["segments"]) segment.erase("texts");
    CHECK(printed(reply).find("token ids") != std::string::npos);
    CHECK(printed(reply).find("fedcba98  5 6\n") != std::string::npos);
    const std::string named = printed(ranking(), {.every_token = true});
    CHECK(named.find("\n1.1           2   6  <b_6>\n") != std::string::npos);
    CHECK(named.find("features") == std::string::npos);
    reply["explanation"]["segments"][1]["features"] = {100, 200, 200, 300};
    CHECK(printed(reply, {.every_token = true}).find("\n1.1           2   6  200, 300") != std::string::npos);
  }

  TEST_CASE("report: tasks, pairs of rows, fillings, moved blocks, cuts and skipped candidates are named") {
    json reply = ranking();
    reply["tasks"] = {"buy", "like"};
    reply["items"] = json::parse(R"([{"id":"a","score":2,"task_scores":[2,3]},
                                    {"id":"b","score":1,"task_scores":[1,0]}])");
    reply["skipped"] = {"z"};
    reply["approximate"] = 0.25;
    json& why = reply["explanation"];
    why["cut"] = "the oldest 3 of the 9 events of the history";
    why["scores"] = json::parse(
        R"([{"item":"a","task":"like","segment":1,"offset":1,"head":1},
            {"item":"b","task":"buy","segment":3,"offset":0,"rows":[7,8]}])");
    why["segments"][3]["filled_by"] = {1};
    why["segments"][3]["source"] = "filled";
    why["segments"][4]["computed_at"] = 0;
    const std::string text = printed(reply);
    const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
    CHECK(has("filled by 1"));
    CHECK(has("3..4, made at 0"));
    CHECK(has("a     like      1.1         2  head 1                     3.000000"));
    CHECK(has("b     buy       3.0         1  logit of 7 less that of 8  1.000000"));
    CHECK(has(
        "\ncut: the oldest 3 of the 9 events of the history\nnot in the catalog: z\napproximate: 25.0 % of"));
  }

  TEST_CASE("report: control characters of ids and texts do not reach the terminal") {
    json reply = ranking();
    reply["explanation"]["segments"][1]["item"] = "a\x1b[31m";
    reply["explanation"]["segments"][1]["texts"] = {"\x1b", "\x7f"};
    CHECK(printed(reply, {.every_token = true}).find_first_of("\x1b\x7f") == std::string::npos);
  }
}

}  // namespace explanation_report_test
