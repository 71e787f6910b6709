#include "server/http/completions.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "server/formats/http_refusal.h"

namespace troupe::server {
namespace {

using nlohmann::json;

const kernels::Vocabulary words =
    kernels::vocabulary_of("vocab.json", json::parse(R"({"<bos>":1,"<a_1>":4,"<b_2>":7,"red":8,"<":9})"), 12);

std::variant<CompleteRequest, Refusal> read(const std::string& body) {
  return read_completion(body, &words, 5);
}
CompleteRequest request_of(const std::string& body) {
  const auto result = read(body);
  if (const auto* refusal = std::get_if<Refusal>(&result))
    FAIL(body << ": " << refusal->code << " " << refusal->what);
  return std::get<CompleteRequest>(result);
}
// Returns status, code and where.
std::string refusal_of(const std::string& body) {
  const auto result = read(body);
  const auto* refusal = std::get_if<Refusal>(&result);
  return refusal ? std::to_string(http_status(refusal->kind)) + " " + refusal->code + " " + refusal->where
                 : "sound";
}
std::vector<Token> prompt_of(const std::string& prompt) {
  return request_of(R"({"prompt":)" + prompt + "}").prompt;
}
std::string with(const std::string& members) { return refusal_of(R"({"prompt":[1],)" + members + "}"); }

TEST_CASE("completions: members have OpenAI's defaults, and null means the default everywhere") {
  const CompleteRequest usual{.prompt = {1, 2}, .max_tokens = 16, .n = 1};
  CHECK(request_of(R"({"prompt":[1,2]})") == usual);
  CHECK(request_of(R"({"model":null,"prompt":[1,2],"max_tokens":null,"n":null,"logprobs":null,"stop":null,
                       "stream":null,"temperature":null,"logit_bias":null,"beam_width":null,"user":null})") ==
        usual);
  CHECK(
      request_of(
          R"({"prompt":[1,2],"echo":false,"stream":false,"temperature":0,"top_p":1.0,"best_of":1,"suffix":"",
                       "frequency_penalty":0.0,"presence_penalty":0,"seed":17,"user":"ann"})") == usual);
  CHECK(request_of(R"({"prompt":[1,2],"temperature":1.0})") == usual);
}

TEST_CASE("completions: all supported members are parsed") {
  const CompleteRequest asked =
      request_of(R"({"model":"m","prompt":[1],"max_tokens":3,"n":4,"beam_width":8,"items":true,"logprobs":0,)"
                 R"("budget_us":90})");
  CHECK(asked == CompleteRequest{.model = "m",
                                 .prompt = {1},
                                 .max_tokens = 3,
                                 .n = 4,
                                 .beam_width = 8,
                                 .items = true,
                                 .logprobs = true,
                                 .budget_us = 90});
}

TEST_CASE("completions: a prompt is token ids, or words separated by blanks or in angle brackets") {
  CHECK(prompt_of("[1,4,7]") == std::vector<Token>{1, 4, 7});
  CHECK(prompt_of("[[1,4]]") == std::vector<Token>{1, 4});
  CHECK(prompt_of(R"("<bos> <a_1>\n <b_2> ")") == std::vector<Token>{1, 4, 7});
  CHECK(prompt_of(R"("<bos><a_1><b_2>")") == std::vector<Token>{1, 4, 7});
  CHECK(prompt_of(R"(["<bos> red"])") == std::vector<Token>{1, 8});
  CHECK(prompt_of(R"("<a_1>red < <")") == std::vector<Token>{4, 8, 9, 9});
  CHECK(prompt_of("[]").empty());
  CHECK(prompt_of(R"("")").empty());
}

TEST_CASE("completions: a word outside the vocabulary is named") {
  CHECK(refusal_of(R"({"prompt":"<bos> <a_2>"})") == "422 unknown_word prompt");
  const auto unknown = std::get<Refusal>(read(R"({"prompt":"<bos> <a_2>"})"));
  CHECK(unknown.what.starts_with("\"<a_2>\" is not in the model's vocabulary"));
  CHECK(refusal_of(R"({"prompt":"<bos"})") == "422 unknown_word prompt");
  CHECK(refusal_of(R"({"prompt":"redred"})") == "422 unknown_word prompt");
  const auto none = read_completion(R"({"prompt":"<bos>"})", nullptr, 5);
  CHECK(std::get<Refusal>(none).code == "no_words");
}

TEST_CASE("completions: several prompts and invalid prompts are refused") {
  CHECK(refusal_of(R"({"prompt":[[1],[2]]})") == "400 several_prompts prompt");
  CHECK(refusal_of(R"({"prompt":["<bos>","<a_1>"]})") == "400 several_prompts prompt");
  CHECK(refusal_of(R"({"prompt":[[1],2]})") == "400 wrong_type prompt[1]");
  CHECK(refusal_of(R"({"prompt":[1,[2]]})") == "400 wrong_type prompt");
  CHECK(refusal_of(R"({"prompt":[[[1]]]})") == "400 wrong_type prompt");
  CHECK(refusal_of(R"({"prompt":[1,"<bos>"]})") == "400 wrong_type prompt[1]");
  CHECK(refusal_of(R"({"prompt":["<bos>",1]})") == "400 wrong_type prompt[1]");
  CHECK(refusal_of(R"({"prompt":[-1]})") == "400 wrong_type prompt[0]");
  CHECK(refusal_of(R"({"prompt":[1,2147483648]})") == "400 wrong_type prompt[1]");
  CHECK(refusal_of(R"({"prompt":[1.5]})") == "400 wrong_type prompt[0]");
  CHECK(refusal_of(R"({"prompt":7})") == "400 wrong_type prompt");
  CHECK(refusal_of(R"({"prompt":null})") == "400 wrong_type prompt");
  CHECK(refusal_of(R"({"prompt":{}})") == "400 wrong_type prompt");
  CHECK(refusal_of(R"({"n":1})") == "400 missing_field prompt");
}

TEST_CASE("completions: a prompt is bounded while it is parsed") {
  CHECK(prompt_of("[1,2,3,4,5]").size() == 5);
  CHECK(refusal_of(R"({"prompt":[1,2,3,4,5,6)") == "413 too_many_tokens prompt");
  CHECK(refusal_of(R"({"prompt":"red red red red red red"})") == "413 too_many_tokens prompt");
}

TEST_CASE("completions: OpenAI members without support are refused by name") {
  for (const std::string name : {"echo", "stream"})
    CHECK(with("\"" + name + "\":true") == "400 unsupported_value " + name);
  CHECK(with(R"("temperature":0.7)") == "400 unsupported_value temperature");
  CHECK(with(R"("top_p":0.9)") == "400 unsupported_value top_p");
  CHECK(with(R"("best_of":4)") == "400 unsupported_value best_of");
  CHECK(with(R"("frequency_penalty":1)") == "400 unsupported_value frequency_penalty");
  CHECK(with(R"("presence_penalty":1)") == "400 unsupported_value presence_penalty");
  CHECK(with(R"("stop":"x")") == "400 unsupported_value stop");
  CHECK(with(R"("stop":["x"])") == "400 unsupported_value stop");
  CHECK(with(R"("suffix":"x")") == "400 unsupported_value suffix");
  CHECK(with(R"("logit_bias":{"4":1})") == "400 unsupported_value logit_bias");
  CHECK(with(R"("stream_options":{})") == "400 unsupported_value stream_options");
  CHECK(with(R"("logprobs":2)") == "400 unsupported_value logprobs");
}

TEST_CASE("completions: an invalid body is refused") {
  CHECK(refusal_of("") == "400 malformed_json byte 1");
  CHECK(refusal_of("[1]") == "400 wrong_type body");
  CHECK(refusal_of("7") == "400 wrong_type body");
  CHECK(refusal_of(R"({"prompt":[1]} x)").starts_with("400 malformed_json"));
  CHECK(refusal_of(std::string(R"({"prompt":[1]})") + '\0').starts_with("400 malformed_json"));
  CHECK(refusal_of(R"({"prompt":[1],"prompt":[2]})") == "400 malformed_json prompt");
  CHECK(with(R"("colour":1)") == "400 unknown_field colour");
  CHECK(with(R"("n":-1)") == "400 wrong_type n");
  const auto number = read(R"({"prompt":[1],"n":-1})");
  REQUIRE(std::holds_alternative<Refusal>(number));
  CHECK(std::get<Refusal>(number).what == "n is -1");
  CHECK(std::get<Refusal>(number).expected == "a whole number from 0 to 4294967295");
  CHECK(with(R"("n":1.5)") == "400 wrong_type n");
  CHECK(with(R"("n":[1])") == "400 wrong_type n");
  CHECK(with(R"("n":4294967296)") == "400 wrong_type n");
  CHECK(with(R"("model":7)") == "400 wrong_type model");
  CHECK(with(R"("items":1)") == "400 wrong_type items");
}

TEST_CASE("completions: the response has OpenAI's form, with tokens and their log-probabilities") {
  const CompleteReply reply{
      .id = 9, .completions = {{{4, 7}, -0.5}, {{4, 5}, -1.25}}, .tokens_total = 3, .model_version = "m"};
  const json body = json::parse(completion_body(reply, &words, 1'700'000'000));
  CHECK(body ==
        json::parse(R"({"id":"cmpl-9","object":"text_completion","created":1700000000,"model":"m","choices":[
    {"index":0,"text":"<a_1> <b_2>","logprobs":null,"finish_reason":"length",)"
                    R"("tokens":[4,7],"log_probability":-0.5},
    {"index":1,"text":"<a_1> 5","logprobs":null,"finish_reason":"length",)"
                    R"("tokens":[4,5],"log_probability":-1.25}],
    "usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}})"));
  CHECK(json::parse(completion_body(reply, nullptr, 0))["choices"][0]["text"] == "4 7");
}

TEST_CASE("completions: log-probabilities are returned token by token") {
  CompleteReply reply{.completions = {{{4}, -0.5, {-0.5}}}, .logprobs = true, .items = true};
  const json one = json::parse(completion_body(reply, &words, 0))["choices"][0];
  CHECK(one["finish_reason"] == "stop");
  CHECK(one["logprobs"] ==
        json::parse(R"({"tokens":["<a_1>"],"token_logprobs":[-0.5],"top_logprobs":null,"text_offset":[0]})"));
  reply.completions = {{{4, 7}, -0.5, {-0.125, -0.375}}};
  const json two = json::parse(completion_body(reply, &words, 0))["choices"][0]["logprobs"];
  CHECK(two["token_logprobs"] == json::parse("[-0.125,-0.375]"));
  CHECK(two["text_offset"] == json::parse("[0,6]"));
}

}  // namespace
}  // namespace troupe::server
