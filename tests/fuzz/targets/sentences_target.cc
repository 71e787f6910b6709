// Parses a model's tokenizer.model, and texts with one. An accepted file's tokens are its pieces, and
// the number of tokens is bounded.
#include "runtime/testing/sentence_model.h"
#include "runtime/tokenizer/sentence_file.h"
#include "runtime/wire/json_text.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

constexpr std::size_t tokens_max = 64;

std::string usual_model(bool merges, bool byte_fallback) {
  return first_pieces() + sentence_piece("▁", -2) + sentence_piece("a", -3) + sentence_piece("b", -3) +
         sentence_piece("ab", -1) + sentence_piece("▁ab", -2.5f) + sentence_piece("ba", -5, piece_unused) +
         sentence_piece("<x>", 0, piece_user_defined) + (byte_fallback ? byte_pieces() : "") +
         sentence_trainer(merges, byte_fallback);
}

void check_encoding(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> tokens;
  const Tokenizer::Fault fault = tokenizer.encode(text, tokens_max, tokens);
  for (const Token token : tokens)
    TROUPE_CHECK(token >= 0 && token < tokenizer.end(), "a token that is none");
  TROUPE_CHECK((fault == Tokenizer::Fault::no_text) == !is_utf8(text), "another text than UTF-8");
  if (fault != Tokenizer::Fault::none) return;
  TROUPE_CHECK(tokens.size() <= tokens_max, "more tokens than there may be");
  tokenizer.decode(tokens);
}

void run_sentences(Input input) {
  const std::uint8_t choice = take_choice(input);
  if (choice % 2 == 1) {
    static const Tokenizer unigram = sentence_tokenizer_of("t.model", usual_model(false, false)),
                           merges = sentence_tokenizer_of("t.model", usual_model(true, true));
    return check_encoding(choice % 4 == 1 ? unigram : merges, text_of(input));
  }
  try {
    const Tokenizer tokenizer = sentence_tokenizer_of("t.model", text_of(input));
    for (const std::string_view text : {"", "a b  aba\r\n12 '\xc3\xa9", "<x> \xe2\x96\x81 ba"})
      check_encoding(tokenizer, text);
  } catch (const TokenizerError& error) {
    check_words(error.what(), 4'096);
  }
}

std::vector<std::string> sentence_seeds() {
  const std::string of_file(1, '\0'), of_unigram(1, '\1'), of_merges(1, '\3');
  const std::string map = std::string("\4\0\0\0\0\xff\xff\x7f", 8) + "a" + std::string(1, '\0');
  return {of_file + usual_model(false, false), of_file + usual_model(true, true),
          of_file + usual_model(true, false) + proto_text(3, proto_text(2, map) + proto_number(4, 0)),
          of_unigram + "ab aba<x> a\n12", of_merges + "caf\xc3\xa9 ba\xcc\x81 \xf0\x9f\x99\x82"};
}

}  // namespace

const Target sentences_target{"sentences", run_sentences, sentence_seeds};

}  // namespace troupe::fuzz
