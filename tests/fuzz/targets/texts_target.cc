// Parses a model's tokenizer.json, and texts with a tokenizer. With an accepted file every text has
// tokens, a text comes back from its tokens, and the number of tokens is bounded.
#include "runtime/tokenizer/tokenizer_file.h"
#include "runtime/wire/json_text.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

constexpr std::size_t tokens_max = 64;

// Builds a file in which every byte is a word, in the file's alphabet, followed by words of merges.
std::string file_of(const std::string& merges, const std::string& words, const std::string& rest) {
  std::string vocab;
  for (int byte = 0, next = 256; byte < 256; ++byte) {
    const bool seen = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int character = seen ? byte : next++;
    std::string shown(1, static_cast<char>(character));
    if (character >= 128)
      shown = {static_cast<char>(0xc0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3f))};
    append_json_string(vocab += vocab.empty() ? "" : ",", shown);
    vocab += ":" + std::to_string(byte);
  }
  return R"({"model":{"type":"BPE","vocab":{)" + vocab + words + R"(},"merges":[)" + merges + "]}," + rest +
         "}";
}

const std::string& usual_file() {
  static const std::string file =
      file_of(R"("a b",["ab","a"],"Ġ ab")", R"(,"ab":256,"aba":257,"Ġab":258)",
              R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"added_tokens":[{"id":300,)"
              R"("content":"<|x|>"},{"id":301,"content":"<|x|>>"}])");
  return file;
}

void check_text(const Tokenizer& tokenizer, std::string_view text, bool composes) {
  std::vector<Token> tokens;
  const Tokenizer::Fault fault = tokenizer.encode(text, tokens_max, tokens);
  for (const Token token : tokens)
    TROUPE_CHECK(token >= 0 && token < tokenizer.end(), "a token that is none");
  TROUPE_CHECK((fault == Tokenizer::Fault::no_text) == !is_utf8(text), "another text than UTF-8");
  if (fault != Tokenizer::Fault::none) return;
  TROUPE_CHECK(tokens.size() <= tokens_max, "more tokens than there may be");
  TROUPE_CHECK(composes || tokenizer.decode(tokens) == text, "a text that does not come back");
}

void run(Input input) {
  const bool of_file = take_choice(input) % 2 == 0;
  if (!of_file) {
    static const Tokenizer usual = tokenizer_of("t.json", usual_file());
    return check_text(usual, text_of(input), false);
  }
  try {
    const Tokenizer tokenizer = tokenizer_of("t.json", text_of(input));
    TROUPE_CHECK(tokenizer.end() >= 256, "a tokenizer without bytes");
    for (const std::string_view text : {"", "a b  aba\r\n12 '\xc3\xa9", "<|x|>"})
      check_text(tokenizer, text, true);
  } catch (const TokenizerError& error) {
    check_words(error.what(), 1'024);
  }
}

std::vector<std::string> seeds() {
  const std::string of_file(1, '\0'), of_text(1, '\1');
  return {of_file + usual_file(),
          of_file + file_of("", "",
                            R"("normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence",)"
                            R"("pretokenizers":[{"type":"Split","pattern":{"Regex":"\\s+|\\p{L}+"},)"
                            R"("behavior":"Isolated","invert":false},{"type":"ByteLevel",)"
                            R"("add_prefix_space":false,"use_regex":false}]})"),
          of_file + file_of("", "",
                            R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                            R"("post_processor":{"type":"TemplateProcessing",)"
                            R"("single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],)"
                            R"("special_tokens":{"x":{"ids":[7]}}})"),
          of_text + "ab aba<|x|>> a\n12", of_text + "caf\xc3\xa9 e\xcc\x81 \xf0\x9f\x99\x82"};
}

}  // namespace

const Target texts_target{"texts", run, seeds, true};

}  // namespace troupe::fuzz
