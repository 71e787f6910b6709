#include "runtime/tokenizer/sentence_file.h"

#include <doctest/doctest.h>

#include <limits>

#include "runtime/testing/sentence_model.h"

using namespace troupe;

namespace sentence_file_test {

std::vector<Token> encoded(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<Token> out;
  REQUIRE(tokenizer.encode(text, 1000, out) == Tokenizer::Fault::none);
  return out;
}
Tokenizer made(const std::string& bytes, const FilesBeside& beside = {}) {
  return sentence_tokenizer_of("t.model", bytes, beside);
}
std::string fault(const std::string& bytes, const FilesBeside& beside = {}) {
  try {
    made(bytes, beside);
  } catch (const TokenizerError& error) {
    return error.what();
  }
  return "";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

// Tokens from 3: "▁" "a" "b" "ab" "▁ab" "abb".
std::string words(float ab = -1, std::uint64_t type = piece_normal) {
  return first_pieces() + sentence_piece("▁", -2) + sentence_piece("a", -3) + sentence_piece("b", -3) +
         sentence_piece("ab", ab, type) + sentence_piece("▁ab", -2.5) + sentence_piece("abb", -5);
}
using List = std::vector<Token>;

TEST_SUITE("sentence pieces") {
  TEST_CASE("sentence pieces: unigram takes the most probable pieces, BPE the best merge first") {
    const std::string pieces = first_pieces() + sentence_piece("▁", -1) + sentence_piece("a", -0.1f) +
                               sentence_piece("b", -9) + sentence_piece("c", -9) + sentence_piece("ab", -1) +
                               sentence_piece("bc", -2);
    CHECK(encoded(made(pieces + sentence_trainer(false)), "abc") == List{3, 4, 8});  // -3.1, not -11
    CHECK(encoded(made(pieces + sentence_trainer(true)), "abc") == List{3, 7, 6});   // "ab" before "bc"
    CHECK(encoded(made(words()), "ab") == List{7});
  }

  TEST_CASE("sentence pieces: blanks at the ends and repeated ones are removed, and one is added in front") {
    const Tokenizer unigram = made(words());
    CHECK(encoded(unigram, "  ab  ab ") == List{7, 7});
    CHECK(encoded(unigram, "   ").empty());
    CHECK(encoded(unigram, "").empty());
    const Tokenizer plain =
        made(words() + proto_text(3, proto_number(3, 0) + proto_number(4, 0) + proto_number(5, 1)));
    CHECK(encoded(plain, "ab ") == List{6, 3});
    CHECK(plain.decode(List{6, 3}) == "ab ");
    const Tokenizer behind = made(words() + proto_text(2, proto_number(24, 1)));
    CHECK(encoded(behind, "ab") == List{6, 3});
  }

  TEST_CASE("sentence pieces: unknown characters are one token a run, or their bytes") {
    const Tokenizer plain = made(words());
    CHECK(encoded(plain, "ab日本ab") == List{7, 0, 6});
    CHECK(plain.decode(List{7, 0, 6}) == "ab \u2047 ab");
    const Tokenizer bytes = made(words() + byte_pieces() + sentence_trainer(true, true));
    const auto byte = [](int value) { return static_cast<Token>(9 + value); };
    CHECK(encoded(bytes, "é") == List{3, byte(0xc3), byte(0xa9)});
    CHECK(bytes.decode(encoded(bytes, "ab é")) == "ab é");
    CHECK(bytes.text(byte(0xc3)) == "\xc3");
  }

  TEST_CASE("sentence pieces: an unused piece is not returned") {
    CHECK(encoded(made(words(-1, piece_unused) + sentence_trainer(false)), "b ab") == List{3, 5, 7});
    const std::string pieces = first_pieces() + sentence_piece("▁", -2) + sentence_piece("a", -3) +
                               sentence_piece("b", -3) + sentence_piece("ab", -1, piece_unused);
    CHECK(encoded(made(pieces + sentence_trainer(true)), "ab") == List{3, 4, 5});
  }

  TEST_CASE("sentence pieces: a user-defined piece is always found, a control piece never") {
    for (const bool merges : {false, true}) {
      const Tokenizer tokenizer =
          made(words() + sentence_piece("b a", 0, piece_user_defined) + sentence_trainer(merges));
      CHECK(encoded(tokenizer, "ab ab").size() > 1);
      CHECK(tokenizer.find("b a") == std::optional<Token>(9));
      CHECK(encoded(tokenizer, "<s>") == List{3, 0});
      const Tokenizer of_a_letter =
          made(words() + sentence_piece("x", 0, piece_control) + sentence_trainer(merges));
      CHECK(encoded(of_a_letter, "ax") == List{3, 4, 0});
    }
    CHECK(made(words()).find("<s>") == std::optional<Token>(1));
    CHECK(made(words()).find(" ab") == std::optional<Token>(7));
    CHECK_FALSE(made(words()).find("abab"));
  }

  TEST_CASE("sentence pieces: the normaliser of the file replaces the longest source") {
    // A double array with the one source "A", whose replacement is at 0: "a".
    std::vector<std::uint32_t> units(256, 0);
    const std::uint32_t offset = 1;
    units[0] = offset << 10;
    units[offset ^ 'A'] = (std::uint32_t{2} << 10) | (1u << 8) | 'A';
    units[offset ^ 'A' ^ 2] = 0x80000000u;
    std::string map(4, '\0');
    map[1] = 4;  // 1,024 bytes of units
    for (const std::uint32_t unit : units)
      for (int shift = 0; shift < 32; shift += 8) map += static_cast<char>(unit >> shift);
    map += std::string("a\0", 2);
    CHECK(encoded(made(words() + proto_text(3, proto_text(2, map))), "Ab") == List{7});
    map[1] = 8;
    CHECK(has(fault(words() + proto_text(3, proto_text(2, map))), "precompiled_charsmap has a double array"));
    CHECK(has(fault(words() + proto_text(3, proto_text(2, "ab"))), "precompiled_charsmap"));
    // Offsets that lead out of the array find nothing.
    std::string outside("\4\0\0\0\0\xff\xff\x7f", 8);
    CHECK(encoded(made(words() + proto_text(3, proto_text(2, outside))), "ab") == List{7});
  }

  TEST_CASE("sentence pieces: a normaliser that makes a text far longer is stopped") {
    std::string map(4, '\0');
    map[1] = 4;
    std::vector<std::uint32_t> units(256, 0);
    units[0] = 1u << 10;
    units[1 ^ 'A'] = (2u << 10) | (1u << 8) | 'A';
    units[1 ^ 'A' ^ 2] = 0x80000000u;
    for (const std::uint32_t unit : units)
      for (int shift = 0; shift < 32; shift += 8) map += static_cast<char>(unit >> shift);
    map += std::string(1000, 'a') + '\0';
    std::vector<Token> out;
    CHECK(made(words() + proto_text(3, proto_text(2, map))).encode("AAAA", 1 << 20, out) ==
          Tokenizer::Fault::too_slow);
  }

  TEST_CASE("sentence pieces: too many tokens and invalid UTF-8 are refused") {
    const Tokenizer tokenizer = made(words() + byte_pieces() + sentence_trainer(false, true));
    std::vector<Token> out{1};
    CHECK(tokenizer.encode("ab", 2, out) == Tokenizer::Fault::none);
    CHECK(tokenizer.encode("ab", 2, out) == Tokenizer::Fault::too_many);
    out.clear();
    CHECK(tokenizer.encode(std::string(1 << 20, 'a'), 5, out) == Tokenizer::Fault::too_many);
    CHECK(tokenizer.encode("\xff", 9, out) == Tokenizer::Fault::no_text);
  }

  TEST_CASE("sentence pieces: the tokens around a text are those of tokenizer_config.json") {
    const auto around = [](const std::string& config) {
      const Tokenizer tokenizer = made(words(), {.config = config});
      return std::pair(List(tokenizer.before().begin(), tokenizer.before().end()),
                       List(tokenizer.behind().begin(), tokenizer.behind().end()));
    };
    CHECK(around("") == std::pair(List{1}, List{}));
    CHECK(around(R"({"add_bos_token":false,"add_eos_token":true})") == std::pair(List{}, List{2}));
    CHECK(has(fault(words(), {.config = R"({"add_bos_token":1})"}), "add_bos_token is 1"));
    CHECK(fault(words(), {.config = R"({"add_prefix_space":true})"}).empty());
    CHECK(has(fault(words(), {.config = R"({"add_prefix_space":false})"}), "add_prefix_space is false"));
    const std::string without_blank = words() + proto_text(3, proto_number(3, 0));
    CHECK(fault(without_blank, {.config = R"({"add_prefix_space":false})"}).empty());
    CHECK(has(fault(words(), {.config = "["}), "tokenizer_config.json: is not a JSON object"));
  }

  TEST_CASE("sentence pieces: tokens that were added beside the pieces are refused by name") {
    CHECK(fault(words(), {.added = R"({"<s>":1})"}).empty());
    CHECK(has(fault(words(), {.added = R"({"<|im_end|>":9})"}),
              R"(added_tokens.json: token 9 is "<|im_end|>", which tokenizer.model does not have)"));
    CHECK(has(fault(words(), {.added = R"({"<s>":2})"}), R"(token 2 is "<s>")"));
    CHECK(fault(words(), {.config = R"({"added_tokens_decoder":{"1":{"content":"<s>"}}})"}).empty());
    CHECK(has(fault(words(), {.config = R"({"added_tokens_decoder":{"9":{"content":"<x>"}}})"}),
              R"(tokenizer_config.json: token 9 is "<x>")"));
    CHECK(has(fault(words(), {.config = R"({"added_tokens_decoder":{"x":[]}})"}), "tokenizer_config.json"));
  }

  TEST_CASE("sentence pieces: an invalid or unsupported file is refused with the place") {
    CHECK(has(fault(words() + proto_text(2, proto_number(3, 3))),
              "t.model: model_type is 3; expected 1 (unigram) or 2 (BPE)"));
    CHECK(has(fault(words() + sentence_piece("ab")), "pieces[9] is \"ab\", like an earlier one"));
    CHECK(has(fault(words() + sentence_piece("")), "pieces[9].piece is empty"));
    CHECK(has(fault(words() + sentence_piece("\xff")), "not UTF-8"));
    CHECK(has(fault(words() + sentence_piece(std::string(1025, 'a'))), "too long"));
    CHECK(has(fault(words() + sentence_piece("x", std::numeric_limits<float>::quiet_NaN())),
              "pieces[9].score is not finite"));
    CHECK(has(fault(words() + sentence_piece("x", 0, 7)), "pieces[9].type is 7"));
    CHECK(has(fault(sentence_piece("x")), "there are 0 pieces of type unknown"));
    CHECK(has(fault(words() + sentence_trainer(false, true)), "there are 0 pieces of type byte"));
    CHECK(has(fault(words() + sentence_piece("<0xZZ>", 0, piece_byte)), "of type byte"));
    CHECK(has(fault(std::string("\x0a\x7f", 2)), "a member that ends behind the file"));
    CHECK(has(fault(std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11)),
              "a number of more than 10 bytes"));
    CHECK(has(fault("\x0b"), "an unknown wire type"));
    CHECK(has(fault(""), "0 pieces of type unknown"));
    CHECK_THROWS_AS(read_sentence_tokenizer("no such file"), TokenizerError);
  }
}

}  // namespace sentence_file_test
