#include "deploy/verify/golden_file.h"

#include <doctest/doctest.h>

#include <cmath>

#include "deploy/data/text_file.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace golden_file_test {

std::vector<GoldenLine> golden(const std::string& text, const std::vector<std::string>& features = {},
                               std::size_t tasks = 1) {
  const kernels::TestFolder folder;
  folder.write("golden.jsonl", text);
  return read_golden(folder.path() / "golden.jsonl", features, tasks);
}

}  // namespace golden_file_test

TEST_SUITE("golden file") {
  using golden_file_test::golden;

  TEST_CASE("golden file: requests of a user, of a history, and plain prompts are read") {
    const auto lines = golden(
        "{\"user\":\"ana\",\"candidates\":[\"a\",7],\"scores\":[1.5,-2]}\n\n"
        "{\"history\":[1,\"b\"],\"candidates\":[\"a\"],\"scores\":[3],\"arrangement\":\"item_first\"}\n"
        "{\"tokens\":[4,5,6],\"rows\":[7,8],\"logits\":[0.5,1]}\n"
        "{\"tokens\":[4,5,6],\"read_at\":1,\"logits\":[0.5,1,2]}\n");
    REQUIRE(lines.size() == 4);
    CHECK(lines[0].where == "golden.jsonl:1");
    CHECK(lines[0].user == "ana");
    CHECK(lines[0].candidates == std::vector<std::string>{"a", "7"});
    CHECK(lines[0].scores == std::vector<double>{1.5, -2});
    CHECK(lines[0].arrangement == Arrangement::unnamed);
    CHECK(lines[1].where == "golden.jsonl:3");
    CHECK(lines[1].history == std::vector<std::string>{"1", "b"});
    CHECK(lines[1].arrangement == Arrangement::item_first);
    CHECK(lines[2].is_tokens());
    CHECK(lines[2].read_at == 2);
    CHECK(lines[2].name_of(1) == "row 8");
    CHECK(lines[3].read_at == 1);
    CHECK(lines[3].name_of(2) == "row 2");
  }

  TEST_CASE("golden file: a missing member is named") {
    CHECK_THROWS_WITH_AS(golden(R"({"user":"a","scores":[1]})"), doctest::Contains("candidates is missing"),
                         ImportError);
    CHECK_THROWS_WITH_AS(golden(R"({"user":"a","candidates":[1]})"), doctest::Contains("scores is missing"),
                         ImportError);
    CHECK_THROWS_WITH_AS(golden(R"({"tokens":[1]})"), doctest::Contains("logits is missing"), ImportError);
  }

  TEST_CASE("golden file: a model of several tasks has a list of scores for each candidate") {
    const std::string line =
        R"({"history":[1],"actions":[4],"scenario":1,"candidates":[2,3],"scores":[[1,2],[3,4]]})";
    const auto lines = golden(line, {"actions"}, 2);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].features == std::vector<Feature>{{"actions", {4}}});
    CHECK(lines[0].scenario == 1);
    CHECK(lines[0].scores == std::vector<double>{1, 2, 3, 4});
    CHECK(lines[0].name_of(3) == "candidate 3, task 1");
    CHECK_THROWS_WITH_AS(golden(line, {"actions"}, 3), doctest::Contains("2 numbers; expected 3"),
                         ImportError);
  }

  TEST_CASE("golden file: a fault names file, line and what was expected") {
    const auto fault = [](const std::string& line, const char* text) {
      CHECK_THROWS_WITH_AS(golden("{\"user\":\"u\",\"candidates\":[1],\"scores\":[1]}\n" + line),
                           doctest::Contains(text), ImportError);
      CHECK_THROWS_WITH_AS(golden(line), doctest::Contains("golden.jsonl:1: "), ImportError);
    };
    fault("[]", "not an object; expected {\"user\" or");
    fault("{", "golden.jsonl:2: ");
    fault(R"({"candidates":[1],"scores":[1]})", "user and history are missing");
    fault(R"({"user":"u","history":[],"candidates":[1],"scores":[1]})", "both user and history");
    fault(R"({"user":"u","candidates":[1,2],"scores":[1]})", "scores has 1 entries; expected 2");
    fault(R"({"user":"u","candidates":[],"scores":[]})", "candidates is empty");
    fault(R"({"user":"u","candidates":[1.5],"scores":[1]})", "an id is 1.5; expected a text");
    fault(R"({"user":"u","candidates":[1],"scores":["x"]})", "a score is \"x\"; expected a number");
    fault(R"({"user":"u","candidates":[1],"scores":[true]})", "a score is true; expected a number");
    fault(R"({"user":"u","candidates":1,"scores":[1]})", "expected {\"user\" or");
    fault(R"({"user":"u","candidates":[1],"scores":[1],"scenario":1.5})", "scenario has 1.5; expected whole");
    fault(R"({"user":"u","candidates":[1],"score":[1]})", "unknown member score; expected");
    fault(R"({"user":"u","candidates":[1],"scores":[1],"arrangement":"plain"})", "arrangement is \"plain\"");
    fault(R"({"tokens":[],"logits":[]})", "tokens is empty");
    fault(R"({"tokens":[1],"read_at":1,"logits":[1]})", "read_at has 1; expected whole numbers from 0 to 0");
    fault(R"({"tokens":[1,2],"read_at":0.5,"logits":[1]})", "read_at has 0.5; expected whole");
    fault(R"({"tokens":[1,2],"read_at":-1,"logits":[1]})", "read_at has -1; expected whole");
    // A token is neither rounded nor wrapped to another one.
    fault(R"({"tokens":[1,2.5],"logits":[1]})",
          "tokens has 2.5; expected whole numbers from 0 to 2147483647");
    fault(R"({"tokens":[4294967297],"logits":[1]})", "tokens has 4294967297; expected whole");
    fault(R"({"tokens":[18446744073709551615],"logits":[1]})", "tokens has 18446744073709551615");
    fault(R"({"tokens":[-1],"logits":[1]})", "tokens has -1; expected whole");
    fault(R"({"tokens":[1],"rows":[0.5],"logits":[1]})", "rows has 0.5; expected whole");
    fault(R"({"tokens":[1],"rows":[1,2],"logits":[1]})", "logits has 1 numbers; expected 2");
    fault(R"({"tokens":[1],"logits":[1],"arrangement":"user_first"})", "expected causal");
    CHECK_THROWS_WITH_AS(
        golden(R"({"history":[1],"actions":[4.5],"candidates":[2],"scores":[1]})", {"actions"}),
        doctest::Contains("actions has 4.5; expected whole"), ImportError);
    CHECK_THROWS_WITH_AS(golden("\n"), doctest::Contains("has no lines"), ImportError);
  }

  TEST_CASE("compare: the bound grows with the scores, and what is not finite is beyond it") {
    const std::vector<double> expected{1, -200, 3};
    CHECK(compare(expected, std::vector<float>{1.01f, -200, 3}, 1e-4).beyond == std::nullopt);
    CHECK(compare(expected, std::vector<float>{1.01f, -200, 3}, 1e-4).bound == doctest::Approx(0.02));
    CHECK(compare(expected, std::vector<float>{1.03f, -200, 3.5f}, 1e-4).beyond == 0);
    CHECK(compare(expected, std::vector<float>{1.03f, -200, 3.5f}, 1e-4).largest == doctest::Approx(0.5));
    CHECK(compare({&expected[0], 1}, std::vector<float>{1.0002f}, 1e-4).beyond == 0);
    CHECK(compare(expected, std::vector<float>{1, -200, NAN}, 1e-4).beyond == 2);
    CHECK(std::isinf(compare(expected, std::vector<float>{1, -200, NAN}, 1e-4).largest));
  }
}
