#include "server/formats/explained_texts.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <utility>

using namespace troupe;
using namespace troupe::server;
using nlohmann::json;

namespace explained_texts_test {

using Texts = std::vector<std::string>;

// Tokenizer where every byte is a token with its number.
const Tokenizer& bytes() {
  static const Tokenizer made = [] {
    TokenizerParts parts;
    for (int byte = 0; byte < 256; ++byte) {
      parts.words.emplace(std::string(1, static_cast<char>(byte)), byte);
      parts.bytes[static_cast<std::size_t>(byte)] = byte;
    }
    return Tokenizer(std::move(parts));
  }();
  return made;
}

Texts texts_of(const ModelText& model, const std::vector<Token>& tokens) {
  Explanation explanation;
  explanation.segments = {{.tokens = {}}, {.tokens = tokens}};
  add_texts(model, explanation);
  CHECK(explanation.segments[0].texts.empty());
  return explanation.segments[1].texts;
}
Texts texts_of(const std::string& text) {
  std::vector<Token> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return texts_of(ModelText(nullptr, &bytes()), tokens);
}

TEST_SUITE("explained texts") {
  TEST_CASE("texts: a character of several tokens is in the text of the last of them") {
    CHECK(texts_of("ab") == Texts{"a", "b"});
    CHECK(texts_of("ä!") == Texts{"", "ä", "!"});
    CHECK(texts_of("€") == Texts{"", "", "€"});
    CHECK(texts_of("🎵x") == Texts{"", "", "", "🎵", "x"});
  }

  TEST_CASE("texts: bytes that never become a character are not lost") {
    CHECK(texts_of("\xc3") == Texts{"\xc3"});
    CHECK(texts_of("\xe2\x82") == Texts{"", "\xe2\x82"});
    CHECK(texts_of("\xc3z") == Texts{"", "\xc3z"});
    CHECK(texts_of("\x80z") == Texts{"\x80", "z"});
  }

  TEST_CASE("texts: a token behind the tokenizer's last one has none") {
    CHECK(texts_of(ModelText(nullptr, &bytes()), {'a', 300, 'b'}) == Texts{"a", "", "b"});
  }

  TEST_CASE("texts: a vocabulary names tokens, and a model with neither has no texts") {
    const kernels::Vocabulary words =
        kernels::vocabulary_of("vocab.json", json::parse(R"({"<bos>":1,"<a_1>":4})"), 12);
    CHECK(texts_of(ModelText(&words), {1, 4, 5}) == Texts{"<bos>", "<a_1>", ""});
    CHECK(texts_of(ModelText(&words, &bytes()), {'a'}) == Texts{"a"});
    CHECK(texts_of(ModelText(), {1, 4}).empty());
    const kernels::Vocabulary none = kernels::vocabulary_of("vocab.json", json::parse("{}"), 12);
    CHECK(texts_of(ModelText(&none), {1, 4}).empty());
  }

  TEST_CASE("texts: a ranking's body has an explanation only if the reply has one") {
    const ModelText model(nullptr, &bytes());
    RankReply reply{.user = "ana"};
    CHECK_FALSE(json::parse(rank_body(reply, model)).contains("explanation"));
    ExplainedSegment segment{.kind = SegmentKind::item, .item = "a", .tokens = {'h', 'i'}};
    segment.start = 9, segment.computed_at = 2;
    segment.sees = {{0, 3}};
    segment.source = "pulled", segment.node = 4;
    reply.explanation.segments = {segment};
    reply.explanation.scores = {{.item = "a", .offset = 1, .rows = {7, 8}}};
    reply.explanation.positions_max = 64;
    const json body = json::parse(rank_body(reply, model)).at("explanation");
    const json& first = body.at("segments").at(0);
    CHECK(first.at("kind") == "item");
    CHECK(first.at("texts") == json::parse(R"(["h","i"])"));
    CHECK(first.at("start") == 9);
    CHECK(first.at("computed_at") == 2);
    CHECK(first.at("sees") == json::parse(R"([{"begin":0,"end":3}])"));
    CHECK(first.at("node") == 4);
    for (const char* absent : {"replaces", "filled_by", "features"}) CHECK_FALSE(first.contains(absent));
    CHECK(body.at("scores").at(0).at("rows") == json::parse("[7,8]"));
    CHECK(body.at("positions_max") == 64);
    CHECK(reply.explanation.segments[0].texts.empty());  // of the router's message
  }
}

}  // namespace explained_texts_test
