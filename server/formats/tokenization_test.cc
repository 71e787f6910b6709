#include "server/formats/tokenization.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "server/testing/byte_tokenizer.h"

using namespace troupe;
using namespace troupe::server;

namespace tokenization_test {

nlohmann::json tokens_of(const std::string& body) {
  const auto read = tokenized(body, ModelText(nullptr, &byte_tokenizer()), 8);
  REQUIRE(std::holds_alternative<std::string>(read));
  return nlohmann::json::parse(std::get<std::string>(read));
}
std::string tokenization_fault(const std::string& body,
                               const ModelText& model = ModelText(nullptr, &byte_tokenizer())) {
  const auto read = tokenized(body, model, 8);
  const auto* refusal = std::get_if<Refusal>(&read);
  return refusal ? refusal->code + " " + refusal->where : "";
}

}  // namespace tokenization_test

using namespace tokenization_test;

TEST_SUITE("tokenization") {
  TEST_CASE("tokenization: a text has the tokens of its template around it, unless that is switched off") {
    CHECK(tokens_of(R"({"prompt":"ab","model":"troupe"})") ==
          nlohmann::json::parse(R"({"count":3,"max_model_len":8,"tokens":[256,97,98],"token_strs":null})"));
    CHECK(tokens_of(R"({"prompt":"ab","add_special_tokens":false,"return_token_strs":true})") ==
          nlohmann::json::parse(R"({"count":2,"max_model_len":8,"tokens":[97,98],"token_strs":["a","b"]})"));
  }

  TEST_CASE("tokenization: a list of texts has a list of each") {
    CHECK(tokens_of(R"({"prompt":["a","bc"]})") ==
          nlohmann::json::parse(
              R"({"count":[2,3],"max_model_len":8,"tokens":[[256,97],[256,98,99]],"token_strs":null})"));
  }

  TEST_CASE("tokenization: what cannot be done is refused by name") {
    CHECK(tokenization_fault("{}") == "missing_field prompt");
    CHECK(tokenization_fault(R"({"prompt":7})") == "wrong_type prompt");
    CHECK(tokenization_fault(R"({"prompt":["a",7]})") == "wrong_type prompt[1]");
    CHECK(tokenization_fault(R"({"prompt":["a","bcdefghi"]})") == "too_many_tokens prompt[1]");
    CHECK(tokenization_fault(R"({"inputs":"a"})") == "unsupported_value inputs");
    CHECK(tokenization_fault(R"({"prompt":"a","messages":[]})") == "unsupported_value messages");
    CHECK(tokenization_fault(R"({"prompt":"a","model":"other"})") == "unknown_model model");
    CHECK(tokenization_fault(R"({"prompt":"a","truncate":1})") == "unknown_field truncate");
    CHECK(tokenization_fault(R"({"prompt":"a"})", ModelText()) == "no_tokenizer prompt");
  }
}
