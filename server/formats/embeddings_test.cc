#include "server/formats/embeddings.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "server/formats/http_refusal.h"

using namespace troupe;
using namespace troupe::server;

namespace embeddings_test {

// Tokenizer where every byte is a token with its number; <s> (256) precedes a text and </s> (257) ends it.
const Tokenizer& embedding_bytes() {
  static const Tokenizer made = [] {
    TokenizerParts parts;
    for (int byte = 0; byte < 256; ++byte) {
      parts.words.emplace(std::string(1, static_cast<char>(byte)), byte);
      parts.bytes[static_cast<std::size_t>(byte)] = byte;
    }
    parts.added = {{"<s>", 256}, {"</s>", 257}};
    parts.before = {256};
    parts.behind = {257};
    return Tokenizer(std::move(parts));
  }();
  return made;
}
PromptForm item_form() {
  PromptForm form;
  form.arrangements = {Arrangement::history};
  return form;
}
const PromptForm of_texts, of_items = item_form();
const ModelText texts(nullptr, &embedding_bytes(), &of_texts), items(nullptr, nullptr, &of_items);
const ScoreLimits limits{.items_max = 3, .labels_max = 2, .tokens_max = 9};

Embeddings asked_of(const std::string& body, const ModelText& model = texts) {
  const auto read = read_embeddings(body, model, limits);
  const auto* refusal = std::get_if<Refusal>(&read);
  REQUIRE_MESSAGE(!refusal, refusal->where << ": " << refusal->what);
  return std::get<Embeddings>(read);
}
std::string fault_of(const std::string& body, const ModelText& model = texts) {
  const auto read = read_embeddings(body, model, limits);
  const auto* refusal = std::get_if<Refusal>(&read);
  return refusal ? std::to_string(http_status(refusal->kind)) + " " + refusal->code + " " + refusal->where
                 : "";
}
std::vector<std::vector<Token>> tokens_of(const std::string& body) {
  std::vector<std::vector<Token>> lists;
  for (const TokenList& list : asked_of(body).request.texts) lists.push_back(list.tokens);
  return lists;
}
using Lists = std::vector<std::vector<Token>>;

TEST_SUITE("embeddings") {
  TEST_CASE("embeddings: a text has the tokens of its template around it, and token ids have none") {
    CHECK(tokens_of(R"({"input":"a"})") == Lists{{256, 'a', 257}});
    CHECK(tokens_of(R"({"input":["a","b"]})") == Lists{{256, 'a', 257}, {256, 'b', 257}});
    CHECK(tokens_of(R"({"input":"a","add_special_tokens":false})") == Lists{{'a'}});
    CHECK(tokens_of(R"({"input":[5,6]})") == Lists{{5, 6}});
    CHECK(tokens_of(R"({"input":[[5,6],[7]]})") == Lists{{5, 6}, {7}});
    const Embeddings asked = asked_of(
        R"({"input":"a","model":"m","user":"x","encoding_format":"base64","budget_us":7,"dimensions":null})");
    CHECK(asked.model == "m");
    CHECK(asked.in_base64);
    CHECK(asked.request.budget_us == 7);
    CHECK(asked.request.user.empty());  // who asks, not who is embedded
  }

  TEST_CASE("embeddings: a model whose tokens are items embeds one user") {
    CHECK(asked_of(R"({"input":"ana","request_timestamp":9})", items).request.user == "ana");
    CHECK(asked_of(R"({"input":["ana"]})", items).request.request_timestamp == 0);
    CHECK(fault_of(R"({"input":["ana","bob"]})", items) == "400 wrong_count input");
    CHECK(fault_of(R"({"input":7})", items) == "400 wrong_type input");
  }

  TEST_CASE("embeddings: a history may stand in place of a user's id") {
    const RowLimits rows{.history_events_max = 2, .event_features = {"timestamps"}};
    const auto read = [&](const std::string& input) {
      return read_embeddings("{\"input\":" + input + "}", items, limits, rows);
    };
    for (const char* input :
         {R"({"history":["x","y"],"timestamps":[5,6]})",
          R"([{"history":["x","y"],"features":[{"name":"timestamps","values":[5,6]}]}])"}) {
      CAPTURE(input);
      const auto asked = read(input);
      REQUIRE(std::holds_alternative<Embeddings>(asked));
      const EmbedRequest& request = std::get<Embeddings>(asked).request;
      CHECK(request.history == std::vector<std::string>{"x", "y"});
      CHECK(request.event_features == std::vector<Feature>{{"timestamps", {5, 6}}});
      CHECK(request.own_history);
      CHECK(std::get<Embeddings>(asked).names ==
            names_of_history(*input == '[' ? "input[0]" : "input", true));
    }
    CHECK(std::get<Refusal>(read(R"({"history":["x","y","z"]})")).where == "input.history");
    CHECK(std::get<Refusal>(read(R"([{"history":"x"}])")).where == "input[0].history");
  }

  TEST_CASE("embeddings: what cannot be done is refused by name") {
    CHECK(fault_of("{}") == "400 missing_field input");
    CHECK(fault_of(R"({"input":null})") == "400 missing_field input");
    CHECK(fault_of("[]") == "400 wrong_type body");
    CHECK(fault_of(R"({"input":"a","dimensions":64})") == "400 unsupported_value dimensions");
    CHECK(fault_of(R"({"input":"a","encoding_format":"int8"})") == "400 unsupported_value encoding_format");
    CHECK(fault_of(R"({"input":"a","colour":1})") == "400 unknown_field colour");
    CHECK(fault_of(R"({"input":"a","truncate_prompt_tokens":3})") ==
          "400 unsupported_value truncate_prompt_tokens");
    CHECK(fault_of(R"({"input":[]})") == "400 no_texts input");
    CHECK(fault_of(R"({"input":{"text":"a"}})") == "400 wrong_type input");
    CHECK(fault_of(R"({"input":["a",{}]})") == "400 wrong_type input[1]");
    CHECK(fault_of(R"({"input":[1,-1]})") == "400 wrong_type input[1]");
    CHECK(fault_of(R"({"input":["a","b","c","d"]})") == "413 too_many_items input");
    CHECK(fault_of(R"({"input":["aaaa","bbbb"]})") == "413 too_many_tokens input[1]");
    CHECK(fault_of(R"({"input":"a"})", ModelText(nullptr, nullptr, &of_texts)) == "422 no_tokenizer input");
  }

  TEST_CASE("embeddings: the answer is OpenAI's, as numbers or as base64 of 32-bit numbers") {
    Embeddings asked;
    const EmbedReply reply{.embeddings = {{{0.5, -1}}, {{0, 2}}}, .tokens_total = 6, .model_version = "v"};
    CHECK(embeddings_body(asked, reply, "m") ==
          R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1.0]},)"
          R"({"object":"embedding","index":1,"embedding":[0.0,2.0]}],"model":"m",)"
          R"("usage":{"prompt_tokens":6,"total_tokens":6}})");
    asked.in_base64 = true;
    const auto body = nlohmann::json::parse(embeddings_body(asked, reply, ""));
    CHECK(body.at("model") == "v");
    CHECK(body.at("data")[0].at("embedding") == "AAAAPwAAgL8=");  // struct.pack("<2f", 0.5, -1)
    CHECK(base64_of(std::vector<double>{1}) == "AACAPw==");
    CHECK(base64_of(std::vector<double>{1, 1, 1}) == "AACAPwAAgD8AAIA/");
    CHECK(base64_of({}).empty());
  }
}

}  // namespace embeddings_test
