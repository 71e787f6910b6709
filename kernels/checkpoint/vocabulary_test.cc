#include "kernels/checkpoint/vocabulary.h"

#include <doctest/doctest.h>

#include "kernels/testing/test_folder.h"

namespace troupe::kernels {
namespace vocabulary_test {

Vocabulary read(const std::string& text, std::uint32_t vocabulary) {
  const TestFolder folder;
  folder.write("vocab.json", text);
  return read_vocabulary(folder.path(), vocabulary);
}

std::string fault(const std::string& text) {
  const std::string message = load_error_of([&] { read(text, 4); });
  const std::size_t at = message.find("vocab.json: ");
  return at == std::string::npos ? message : message.substr(at);
}

TEST_CASE("vocabulary: tokens are found by name and names by token") {
  const Vocabulary vocabulary = read(R"({"<pad>": 0, "<a_1>": 3, "süß": 1})", 4);
  CHECK(vocabulary.find("<a_1>") == 3);
  CHECK(vocabulary.find("süß") == 1);
  CHECK_FALSE(vocabulary.find("<a_2>"));
  CHECK_FALSE(vocabulary.find(""));
  CHECK(vocabulary.name(0) == "<pad>");
  CHECK(vocabulary.name(2) == "");
  CHECK(vocabulary.named() == 3);
}

TEST_CASE(
    "vocabulary: ids outside the model's vocabulary, duplicate ids and ids of another type are refused") {
  CHECK(fault(R"({"x": 4})") == "vocab.json: \"x\" is 4; expected an id below 4");
  CHECK(fault(R"({"x": -1})") == "vocab.json: \"x\" is -1; expected an id below 4");
  CHECK(fault(R"({"x": 18446744073709551615})") != "");
  CHECK(fault(R"({"x": "1"})") == "vocab.json: \"x\" is \"1\"; expected an id below 4");
  CHECK(fault(R"({"x": 1.0})") != "");
  CHECK(fault(R"({"x": 1, "y": 1})") ==
        "vocab.json: \"y\" and \"x\" both are 1; expected one name for each id");
}

TEST_CASE("vocabulary: duplicate names, empty names and files that are no JSON object are refused") {
  CHECK(fault(R"({"x": 1, "x": 2})") ==
        "vocab.json: key \"x\" occurs twice in one object; expected unique keys");
  CHECK(fault(R"({"": 1})") == "vocab.json: an empty name; expected names of at least one character");
  CHECK(fault("[]") == "vocab.json: the top level is an array; expected an object");
  CHECK(fault("") == "vocab.json: no valid JSON at byte 1 (it is an empty file); expected a JSON document");
  CHECK(fault(std::string(100000, '[')) == "vocab.json: nested too deep; expected at most 32 levels");
  CHECK(fault("{\"\xff\": 1}") != "");
  const TestFolder empty;
  CHECK(load_error_of([&] { read_vocabulary(empty.path(), 4); }).find("no such file") != std::string::npos);
}

}  // namespace vocabulary_test
}  // namespace troupe::kernels
