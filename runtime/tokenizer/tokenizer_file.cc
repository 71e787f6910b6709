// Reads and checks a model's tokenizer.json. A feature that this program does not support is
// refused by name, because ignoring it would change tokens.
#include "runtime/tokenizer/tokenizer_file.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/config/whole_file.h"
#include "runtime/wire/json_bounds.h"
#include "runtime/wire/json_text.h"

namespace troupe {
namespace {

using Json = nlohmann::json;

constexpr std::size_t bytes_max = std::size_t{64} << 20;
constexpr JsonBounds bounds{.values_max = 4'000'000, .depth_max = 16};
constexpr std::size_t shown_max = 100;
constexpr Token token_max = 1'000'000;

// GPT-2's expression, by which a ByteLevel with use_regex splits text.
constexpr const char* usual_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return printable(text.size() > shown_max ? text.substr(0, shown_max) + "…" : text);
}

// Returns the characters that stand for bytes: visible ones stand for themselves, the others are
// mapped from U+0100 on.
std::array<std::uint32_t, 256> characters_of_bytes() {
  std::array<std::uint32_t, 256> characters{};
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool seen = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    characters[byte] = seen ? byte : next++;
  }
  return characters;
}

class Reader {
 public:
  Reader(const std::string& file, const Json& top) : file_(file), top_(top) {
    const auto characters = characters_of_bytes();
    for (std::size_t byte = 0; byte < characters.size(); ++byte)
      bytes_of_[characters[byte]] = static_cast<int>(byte);
  }

  TokenizerParts read() {
    if (!top_.is_object()) fault("the file is not a JSON object", "a Hugging Face tokenizer.json");
    for (const char* absent : {"truncation", "padding"})
      if (!of(top_, absent).is_null()) fault(std::string(absent) + " is " + shown(of(top_, absent)), "null");
    read_normalizer(of(top_, "normalizer"), "normalizer");
    read_model(of(top_, "model"));
    read_added(of(top_, "added_tokens"));
    read_pre_tokenizer(of(top_, "pre_tokenizer"));
    read_post_processor(of(top_, "post_processor"), "post_processor");
    const Json& decoder = of(top_, "decoder");
    if (!decoder.is_null()) check_type(decoder, "decoder", "ByteLevel");
    return std::move(parts_);
  }

 private:
  [[noreturn]] void fault(const std::string& what, const std::string& expected) const {
    throw TokenizerError(file_ + ": " + printable(what) + "; expected " + expected);
  }
  static const Json& of(const Json& object, const char* key) {
    static const Json none;
    const auto found = object.is_object() ? object.find(key) : object.end();
    return object.is_object() && found != object.end() ? *found : none;
  }
  std::string type_of(const Json& part, const std::string& where) const {
    if (!part.is_object() || !of(part, "type").is_string())
      fault(where + " is " + shown(part), "an object with a type");
    return of(part, "type").get<std::string>();
  }
  void check_type(const Json& part, const std::string& where, const char* expected) const {
    if (const std::string type = type_of(part, where); type != expected)
      fault(where + " is " + shown(type), expected);
  }
  // Checks a member that would change tokens if it had another value. An absent member counts as
  // null.
  void check_value(const Json& part, const std::string& where, const char* key,
                   std::initializer_list<Json> allowed) const {
    const Json& value = of(part, key);
    for (const Json& one : allowed)
      if (value == one) return;
    fault(where + "." + key + " is " + shown(value), shown(*allowed.begin()));
  }
  Token token_at(const Json& value, const std::string& where) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= token_max)
      fault(where + " is " + shown(value), "an id below " + std::to_string(token_max));
    return value.get<Token>();
  }

  void read_normalizer(const Json& part, const std::string& where) {
    if (part.is_null()) return;
    const std::string type = type_of(part, where);
    if (type == "NFC") return void(parts_.composes = true);
    if (type != "Sequence" || !of(part, "normalizers").is_array())
      fault(where + " is " + shown(type), "NFC, or null");
    for (const Json& one : of(part, "normalizers"))
      if (type_of(one, where) == "NFC")
        parts_.composes = true;
      else
        fault(where + " is " + shown(type_of(one, where)), "NFC, or null");
  }

  // Returns the bytes that a word of the vocabulary stands for.
  std::string bytes_of(const std::string& word, const std::string& where) const {
    std::string bytes;
    for (std::size_t i = 0; i < word.size();) {
      const auto lead = static_cast<unsigned char>(word[i]);
      const std::size_t length = lead < 0x80 ? 1 : 2;  // all characters of the alphabet are below U+0800
      std::uint32_t character = lead;
      if (length == 2 && i + 1 < word.size())
        character = ((lead & 0x1fu) << 6) | (static_cast<unsigned char>(word[i + 1]) & 0x3fu);
      const auto byte = bytes_of_.find(lead < 0xe0 ? character : UINT32_MAX);
      if (byte == bytes_of_.end())
        fault(where + " has " + shown(word), "words in the alphabet of bytes (ByteLevel)");
      bytes += static_cast<char>(byte->second);
      i += length;
    }
    return bytes;
  }

  void read_model(const Json& model) {
    check_type(model, "model", "BPE");
    check_value(model, "model", "dropout", {nullptr, 0.0});
    check_value(model, "model", "unk_token", {nullptr});
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      check_value(model, "model", key, {nullptr, ""});
    if (of(model, "byte_fallback") == true)
      fault("model.byte_fallback is true", "false, or the model's tokenizer.model beside it");
    check_value(model, "model", "byte_fallback", {false, nullptr});
    check_value(model, "model", "ignore_merges", {false, true, nullptr});
    parts_.whole_words = of(model, "ignore_merges") == true;
    read_words(of(model, "vocab"));
    read_merges(of(model, "merges"));
  }

  void read_words(const Json& words) {
    if (!words.is_object()) fault("model.vocab is " + shown(words), "words and their ids");
    for (const auto& [word, id] : words.items()) {
      const Token token = token_at(id, "model.vocab[" + shown(word) + "]");
      if (word.empty()) fault("model.vocab has an empty word", "words of at least one byte");
      if (!taken_.insert(token).second)
        fault("model.vocab has id " + std::to_string(token) + " twice", "one word for each id");
      parts_.words.emplace(bytes_of(word, "model.vocab"), token);
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto found = parts_.words.find(std::string(1, static_cast<char>(byte)));
      if (found == parts_.words.end())
        fault("model.vocab has no word for byte " + std::to_string(byte), "one for each byte");
      parts_.bytes[byte] = found->second;
    }
  }

  // Reads a merge: "a b" or ["a","b"].
  std::pair<std::string, std::string> merge_of(const Json& merge, const std::string& where) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    const std::string text = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t blank = text.find(' ');
    if (blank == text.npos || text.find(' ', blank + 1) != text.npos)
      fault(where + " is " + shown(merge), "two words");
    return {text.substr(0, blank), text.substr(blank + 1)};
  }

  void read_merges(const Json& merges) {
    if (!merges.is_array()) fault("model.merges is " + shown(merges), "a list of pairs of words");
    std::set<std::pair<Token, Token>> pairs;
    for (const Json& merge : merges) {
      const std::string where = "model.merges[" + std::to_string(parts_.merges.size()) + "]";
      const auto [first, second] = merge_of(merge, where);
      const auto word = [&](const std::string& bytes) {
        const auto found = parts_.words.find(bytes);
        if (found == parts_.words.end())
          fault(where + " is " + shown(merge), "words of model.vocab that make one");
        return found->second;
      };
      const std::string a = bytes_of(first, where), b = bytes_of(second, where);
      parts_.merges.push_back({word(a), word(b), word(a + b)});
      if (!pairs.emplace(parts_.merges.back().first, parts_.merges.back().second).second)
        fault(where + " is " + shown(merge) + ", like an earlier one", "each pair once");
    }
  }

  void read_added(const Json& added) {
    if (!added.is_array() && !added.is_null()) fault("added_tokens is " + shown(added), "a list");
    for (const Json& one : added) {
      const std::string where = "added_tokens[" + std::to_string(parts_.added.size()) + "]";
      const Json& content = of(one, "content");
      if (!content.is_string() || content.get<std::string>().empty())
        fault(where + ".content is " + shown(content), "a text");
      for (const char* key : {"normalized", "single_word", "lstrip", "rstrip"})
        check_value(one, where, key, {false, nullptr});
      const auto text = content.get<std::string>();
      const Token token = token_at(of(one, "id"), where + ".id");
      const auto word = parts_.words.find(text);
      // a word of the vocabulary that is also an added token
      const bool same = word != parts_.words.end() && word->second == token;
      if (!same && !taken_.insert(token).second)
        fault(where + ".id " + std::to_string(token) + " is already used", "distinct ids");
      const Json& special = of(one, "special");
      if (!special.is_boolean() && !special.is_null())
        fault(where + ".special is " + shown(special), "true or false");
      parts_.added.push_back({text, token, special.is_null() || special.get<bool>()});
    }
  }

  void read_split(const Json& part, const std::string& where) {
    check_value(part, where, "behavior", {"Isolated"});
    check_value(part, where, "invert", {false, nullptr});
    const Json& pattern = of(of(part, "pattern"), "Regex");
    if (!pattern.is_string()) fault(where + ".pattern is " + shown(of(part, "pattern")), "a Regex");
    add_pattern(pattern.get<std::string>(), where + ".pattern");
  }

  void add_pattern(const std::string& pattern, const std::string& where) {
    try {
      parts_.pieces.emplace_back(pattern);
    } catch (const std::invalid_argument& error) {
      fault(where + " is not a regular expression (" + error.what() + ")", "one that PCRE2 supports");
    }
  }

  void read_pre_tokenizer(const Json& part) {
    const std::string where = "pre_tokenizer";
    const bool sequence = of(part, "type") == "Sequence" && of(part, "pretokenizers").is_array();
    const Json list = sequence ? of(part, "pretokenizers") : Json::array({part});
    bool bytes = false;  // true after a ByteLevel, which must be the last
    for (const Json& one : list) {
      const std::string type = type_of(one, where);
      if (bytes) fault(where + " has " + shown(type) + " after ByteLevel", "nothing after it");
      if (type == "Split") {
        read_split(one, where);
        continue;
      }
      if (type != "ByteLevel") fault(where + " is " + shown(type), "Split and ByteLevel");
      bytes = true;
      check_value(one, where, "add_prefix_space", {false});
      if (of(one, "use_regex") != false) add_pattern(usual_pattern, where);
    }
    if (!bytes) fault(where + " has no ByteLevel", "one at its end");
  }

  void read_post_processor(const Json& part, const std::string& where) {
    if (part.is_null()) return;
    const std::string type = type_of(part, where);
    if (type == "ByteLevel") return;
    if (type == "Sequence" && of(part, "processors").is_array()) {
      for (const Json& one : of(part, "processors"))
        if (type_of(one, where) == "Sequence")
          fault(where + " has a Sequence inside a Sequence", "a flat list");
        else
          read_post_processor(one, where);
      return;
    }
    if (type != "TemplateProcessing" || !of(part, "single").is_array())
      fault(where + " is " + shown(type), "ByteLevel, TemplateProcessing, or null");
    bool behind = false;
    for (const Json& piece : of(part, "single")) {
      if (!of(piece, "Sequence").is_null()) {
        behind = true;
        continue;
      }
      const Json& name = of(of(piece, "SpecialToken"), "id");
      const Json& ids = of(
          name.is_string() ? of(of(part, "special_tokens"), name.get<std::string>().c_str()) : name, "ids");
      if (!ids.is_array())
        fault(where + ".single has " + shown(piece), "special tokens with ids, and a Sequence");
      for (const Json& id : ids)
        (behind ? parts_.behind : parts_.before).push_back(token_at(id, where + ".special_tokens"));
    }
  }

  const std::string& file_;
  const Json& top_;
  std::unordered_map<std::uint32_t, int> bytes_of_;  // indexed by character
  std::set<Token> taken_;
  TokenizerParts parts_;
};

}  // namespace

Tokenizer tokenizer_of(const std::string& file, std::string_view json) {
  if (const std::string excess = exceeded_bound(json, bounds); !excess.empty())
    throw TokenizerError(file + ": has " + excess + "; expected a Hugging Face tokenizer.json");
  const Json top = Json::parse(json, nullptr, false);
  if (top.is_discarded())
    throw TokenizerError(file + ": is not JSON; expected a Hugging Face tokenizer.json");
  return Tokenizer(Reader(file, top).read());
}

namespace {

std::string read_tokenizer_text(const std::string& file) {
  try {
    return read_whole_file(file, bytes_max, "a Hugging Face tokenizer.json");
  } catch (const FileError& error) {
    throw TokenizerError(error.what());
  }
}

}  // namespace

Tokenizer read_tokenizer(const std::string& file) { return tokenizer_of(file, read_tokenizer_text(file)); }

bool describes_sentence_pieces(const std::string& file) {
  const std::string text = read_tokenizer_text(file);
  if (!exceeded_bound(text, bounds).empty()) return false;
  const Json top = Json::parse(text, nullptr, false);
  const auto model = top.is_object() ? top.find("model") : top.end();
  if (!top.is_object() || model == top.end() || !model->is_object()) return false;
  return model->value("type", Json()) == "Unigram" || model->value("byte_fallback", Json()) == true;
}

}  // namespace troupe
