// Turns the tokens of an explained prompt into texts for people.
#include "server/formats/explained_texts.h"

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/wire/json.h"

namespace troupe::server {
namespace {

// Counts the last bytes that begin a character of UTF-8 and do not complete it: 0 to 3.
std::size_t incomplete_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

std::vector<std::string> texts_of(const Tokenizer& tokenizer, std::span<const Token> tokens) {
  std::vector<std::string> texts;
  texts.reserve(tokens.size());
  std::string text;
  for (const Token token : tokens) {
    text += tokenizer.text(token);
    const std::size_t whole = text.size() - incomplete_bytes(text);
    texts.push_back(text.substr(0, whole));
    text.erase(0, whole);
  }
  if (!texts.empty()) texts.back() += text;
  return texts;
}

std::vector<std::string> names_of(const kernels::Vocabulary& words, std::span<const Token> tokens) {
  std::vector<std::string> names;
  names.reserve(tokens.size());
  for (const Token token : tokens) names.push_back(words.name(token));
  return names;
}

}  // namespace

void add_texts(const ModelText& model, Explanation& explanation) {
  if (!model.tokenizer && !model.has_words()) return;
  for (ExplainedSegment& segment : explanation.segments)
    segment.texts =
        model.tokenizer ? texts_of(*model.tokenizer, segment.tokens) : names_of(*model.words, segment.tokens);
}

std::string rank_body(const RankReply& reply, const ModelText& model) {
  if (reply.explanation.segments.empty()) return to_json(reply);
  RankReply explained = reply;
  add_texts(model, explained.explanation);
  return to_json(explained);
}

}  // namespace troupe::server
