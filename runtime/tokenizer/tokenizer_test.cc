#include "runtime/tokenizer/tokenizer_file.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

using namespace troupe;

namespace tokenizer_test {

using Json = nlohmann::json;

constexpr const char* qwen_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Returns the character that stands for a byte, as UTF-8.
std::string shown(unsigned char byte) {
  static const std::vector<int> characters = [] {
    std::vector<int> made(256);
    for (int b = 0, next = 256; b < 256; ++b)
      made[static_cast<std::size_t>(b)] =
          (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174 ? b : next++;
    return made;
  }();
  const int c = characters[byte];
  if (c < 128) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3f))};
}

// A file in which every byte is the word with its number; then the words that merges produce, by
// rank; then two added tokens.
Json small() {
  Json vocab = Json::object(), merges = Json::array();
  for (int byte = 0; byte < 256; ++byte) vocab[shown(static_cast<unsigned char>(byte))] = byte;
  int next = 256;
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{
           {"a", "b"}, {"b", "c"}, {"ab", "c"}, {"Ġ", "ab"}, {"Ã", "©"}, {"c", "c"}, {"cc", "cc"}}) {
    vocab[a + b] = next++;
    merges.push_back({a, b});
  }
  vocab["xyz"] = next++;  // no merges produce it
  Json file;
  file["version"] = "1.0";
  file["normalizer"] = {{"type", "NFC"}};
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"},
                              {"pattern", {{"Regex", qwen_pattern}}},
                              {"behavior", "Isolated"},
                              {"invert", false}},
                             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  file["decoder"] = {{"type", "ByteLevel"}};
  file["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}, {"byte_fallback", false}};
  file["added_tokens"] = {{{"id", next}, {"content", "<|end|>"}, {"special", true}},
                          {{"id", next + 1}, {"content", "<|end|>>"}}};
  return file;
}
Tokenizer made(const Json& file) { return tokenizer_of("t.json", file.dump()); }
std::vector<Token> encoded(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<Token> out;
  REQUIRE(tokenizer.encode(text, 1000, out) == Tokenizer::Fault::none);
  return out;
}
std::string fault(const Json& file) {
  try {
    made(file);
  } catch (const TokenizerError& error) {
    return error.what();
  }
  return "";
}

TEST_SUITE("tokenizer") {
  const Tokenizer tokenizer = made(small());

  TEST_CASE("tokenizer: merges apply by rank, the first of equal pairs first") {
    CHECK(encoded(tokenizer, "abc") == std::vector<Token>{258});  // "ab c" comes before "a bc"
    CHECK(encoded(tokenizer, "bc") == std::vector<Token>{257});
    CHECK(encoded(tokenizer, "ccccc") == std::vector<Token>{262, 'c'});
    CHECK(encoded(tokenizer, "cccc cc") == std::vector<Token>{262, ' ', 261});
    CHECK(encoded(tokenizer, "").empty());
  }

  TEST_CASE("tokenizer: a blank belongs to the next word, and digits are single pieces") {
    CHECK(encoded(tokenizer, "ab ab") == std::vector<Token>{256, 259});
    CHECK(encoded(tokenizer, "12") == std::vector<Token>{'1', '2'});
    CHECK(encoded(tokenizer, "ab  ab") == std::vector<Token>{256, ' ', 259});
  }

  TEST_CASE("tokenizer: a word that no merges produce is found only with ignore_merges") {
    CHECK(encoded(tokenizer, "xyz") == std::vector<Token>{'x', 'y', 'z'});
    Json file = small();
    file["model"]["ignore_merges"] = true;
    CHECK(encoded(made(file), "xyz") == std::vector<Token>{263});
  }

  TEST_CASE("tokenizer: text is composed if the file says so") {
    CHECK(encoded(tokenizer, "e\u0301") == std::vector<Token>{260});
    Json file = small();
    file["normalizer"] = nullptr;
    CHECK(encoded(made(file), "e\u0301") == std::vector<Token>{'e', 0xcc, 0x81});
  }

  TEST_CASE(
      "marks in a row that would take long to be put in order are refused, also those that starters are made "
      "of") {
    const auto fault_of = [](const std::string& marks, std::size_t times) {
      std::string text = "e";
      for (std::size_t i = 0; i < times; ++i) text += marks;
      std::vector<Token> out;
      return tokenizer.encode(text, 1 << 20, out);
    };
    CHECK(fault_of("\u0301\u0316", 64) == Tokenizer::Fault::none);
    CHECK(fault_of("\u0301\u0316", 65) == Tokenizer::Fault::too_slow);
    CHECK(fault_of("\u0301\u0316", 50'000) == Tokenizer::Fault::too_slow);
    CHECK(fault_of("\u0f73", 64) == Tokenizer::Fault::none);  // two marks, itself not a mark
    CHECK(fault_of("\u0f73", 50'000) == Tokenizer::Fault::too_slow);
    CHECK(fault_of("e\u0301\u0316", 50'000) == Tokenizer::Fault::none);
  }

  TEST_CASE("tokenizer: the longest added token at any position is found first") {
    CHECK(encoded(tokenizer, "ab<|end|>ab") == std::vector<Token>{256, 264, 256});
    CHECK(encoded(tokenizer, "<|end|>>") == std::vector<Token>{265});
    CHECK(encoded(tokenizer, "<|end|") == std::vector<Token>{'<', '|', 'e', 'n', 'd', '|'});
    CHECK(tokenizer.find("<|end|>") == std::optional<Token>(264));
    CHECK(tokenizer.find("abc") == std::optional<Token>(258));
    CHECK_FALSE(tokenizer.find("ab c"));
  }

  TEST_CASE("tokenizer: control tokens in other people's texts are encoded as their characters") {
    const auto as_text = [](const Tokenizer& with, const std::string& text) {
      std::vector<Token> out;
      REQUIRE(with.encode(text, 1000, out, ControlTokens::as_text) == Tokenizer::Fault::none);
      return out;
    };
    std::vector<Token> characters;
    for (const char c : std::string("<|end|>")) characters.push_back(c);
    CHECK(as_text(tokenizer, "<|end|>") == characters);
    CHECK(as_text(tokenizer, "ab") == std::vector<Token>{256});
    Json file = small();
    file["added_tokens"][0]["special"] = false;  // an ordinary word; the other one remains a control token
    CHECK(as_text(made(file), "<|end|>>") == std::vector<Token>{264, '>'});
    CHECK(encoded(made(file), "<|end|>>") == std::vector<Token>{265});
    file["added_tokens"][0]["special"] = 1;
    CHECK(fault(file).find("added_tokens[0].special is 1") != std::string::npos);
  }

  TEST_CASE("tokenizer: a control token that merges or the vocabulary could make is spelled, too") {
    Json file = small();
    file["added_tokens"].push_back({{"id", 258}, {"content", "abc"}});
    file["added_tokens"].push_back({{"id", 263}, {"content", "xyz"}});
    file["model"]["ignore_merges"] = true;
    const Tokenizer both = made(file);
    std::vector<Token> out;
    REQUIRE(both.encode("abc xyz", 1000, out, ControlTokens::as_text) == Tokenizer::Fault::none);
    CHECK(out == std::vector<Token>{'a', 'b', 'c', ' ', 'x', 'y', 'z'});
    out.clear();
    CHECK(both.encode("abc", 2, out, ControlTokens::as_text) == Tokenizer::Fault::too_many);
  }

  TEST_CASE("tokenizer: too many tokens and invalid UTF-8 are refused") {
    std::vector<Token> out{1, 2};
    CHECK(tokenizer.encode("abc abc", 5, out) == Tokenizer::Fault::none);
    CHECK(out.size() == 5);
    CHECK(tokenizer.encode("<|end|>", 5, out) == Tokenizer::Fault::too_many);
    CHECK(tokenizer.encode("a", 5, out) == Tokenizer::Fault::too_many);
    CHECK(tokenizer.encode("\xff", 9, out) == Tokenizer::Fault::no_text);
  }

  TEST_CASE("tokenizer: decoding the tokens of a text gives the text") {
    Json file = small();
    file["normalizer"] = nullptr;
    const Tokenizer plain = made(file);
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::vector<std::string> parts{"ab",   "abc",  " ",       "\n", "'LL", "é",  "e\u0301",
                                         "日本", "🙂", "<|end|>", "<|", "12",  "\t", "cc"};
    for (int round = 0; round < 200; ++round) {
      std::string text;
      for (unsigned n = random() % 40; n > 0; --n) text += parts[random() % parts.size()];
      const std::vector<Token> tokens = encoded(plain, text);
      CHECK(plain.decode(tokens) == text);
      CHECK(encoded(plain, text) == tokens);
    }
    CHECK(plain.decode(std::vector<Token>{-1, 9999}).empty());
  }

  TEST_CASE("tokenizer: the post-processor's tokens are read, but not added by encode") {
    Json file = small();
    file["post_processor"] = {{"type", "Sequence"},
                              {"processors",
                               {{{"type", "ByteLevel"}},
                                {{"type", "TemplateProcessing"},
                                 {"single",
                                  {{{"SpecialToken", {{"id", "<|end|>"}}}},
                                   {{"Sequence", {{"id", "A"}}}},
                                   {{"SpecialToken", {{"id", "<|end|>"}}}}}},
                                 {"special_tokens", {{"<|end|>", {{"ids", {264}}}}}}}}}};
    const Tokenizer with = made(file);
    CHECK(std::vector<Token>(with.before().begin(), with.before().end()) == std::vector<Token>{264});
    CHECK(std::vector<Token>(with.behind().begin(), with.behind().end()) == std::vector<Token>{264});
    CHECK(encoded(with, "ab") == std::vector<Token>{256});
  }

  TEST_CASE("tokenizer: an unsupported feature of the file is refused by name") {
    const auto with = [](const char* path, const Json& value) {
      Json file = small();
      file[Json::json_pointer(path)] = value;
      return fault(file);
    };
    CHECK(with("/normalizer", {{"type", "Lowercase"}}) ==
          "t.json: normalizer is \"Lowercase\"; expected NFC, or null");
    CHECK(with("/model/type", "WordPiece").find("model is \"WordPiece\"; expected BPE") != std::string::npos);
    CHECK(with("/model/byte_fallback", true).find("model.byte_fallback is true; expected false") !=
          std::string::npos);
    CHECK(with("/model/dropout", 0.1).find("model.dropout") != std::string::npos);
    CHECK(with("/model/unk_token", "<unk>").find("model.unk_token") != std::string::npos);
    CHECK(with("/model/end_of_word_suffix", "</w>").find("model.end_of_word_suffix") != std::string::npos);
    CHECK(with("/pre_tokenizer", {{"type", "Metaspace"}}).find("\"Metaspace\"") != std::string::npos);
    CHECK(with("/pre_tokenizer/pretokenizers/0/behavior", "Removed")
              .find("pre_tokenizer.behavior is \"Removed\"") != std::string::npos);
    CHECK(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(").find("is not a regular expression (") !=
          std::string::npos);
    CHECK(with("/pre_tokenizer/pretokenizers/1/add_prefix_space", true).find("add_prefix_space is true") !=
          std::string::npos);
    CHECK(with("/added_tokens/0/lstrip", true).find("added_tokens[0].lstrip is true") != std::string::npos);
    CHECK(with("/added_tokens/0/id", 7).find("added_tokens[0].id 7 is already used") != std::string::npos);
    CHECK(with("/truncation", {{"max_length", 512}})
              .find("truncation is {\"max_length\":512}; expected null") != std::string::npos);
    CHECK(with("/decoder", {{"type", "WordPiece"}}).find("decoder is \"WordPiece\"; expected ByteLevel") !=
          std::string::npos);
    CHECK(
        with("/post_processor", {{"type", "BertProcessing"}}).find("post_processor is \"BertProcessing\"") !=
        std::string::npos);
  }

  TEST_CASE("tokenizer: an invalid vocabulary is refused with the position") {
    Json file = small();
    file["model"]["vocab"].erase("a");
    CHECK(fault(file).find("no word for byte 97") != std::string::npos);
    file = small();
    file["model"]["vocab"]["日"] = 999;
    CHECK(fault(file).find("expected words in the alphabet of bytes") != std::string::npos);
    file = small();
    file["model"]["vocab"]["qq"] = 5;
    CHECK(fault(file).find("id 5 twice") != std::string::npos);
    file["model"]["vocab"]["qq"] = -5;
    CHECK(fault(file).find("expected an id below") != std::string::npos);
    file = small();
    file["model"]["merges"].push_back({"q", "q"});
    CHECK(fault(file).find("model.merges[7] is [\"q\",\"q\"]; expected words of model.vocab") !=
          std::string::npos);
    file["model"]["merges"].back() = "a b";
    CHECK(fault(file).find("like an earlier one; expected each pair once") != std::string::npos);
    CHECK(fault(Json::array()).find("not a JSON object") != std::string::npos);
    CHECK_THROWS_AS(tokenizer_of("t.json", "{"), TokenizerError);
    CHECK_THROWS_AS(tokenizer_of("t.json", std::string(100, '[')), TokenizerError);
    CHECK_THROWS_AS(read_tokenizer("no such file"), TokenizerError);
  }
}

}  // namespace tokenizer_test
