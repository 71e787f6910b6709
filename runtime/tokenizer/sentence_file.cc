// Reads and checks a SentencePiece model. The wire form of Protocol Buffers is read directly: a handful of
// members are needed, and every length is checked against the bytes that are there.
#include "runtime/tokenizer/sentence_file.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "runtime/config/whole_file.h"
#include "runtime/tokenizer/sentence_pieces.h"
#include "runtime/wire/json_bounds.h"
#include "runtime/wire/json_text.h"

namespace troupe {
namespace {

using Kind = SentenceParts::Kind;

constexpr std::size_t model_bytes_max = std::size_t{64} << 20;
constexpr std::size_t beside_bytes_max = std::size_t{16} << 20;
constexpr JsonBounds beside_bounds{.values_max = 1'000'000, .depth_max = 16};
constexpr std::size_t pieces_max = 1'000'000, piece_bytes_max = 1024;
constexpr const char* model_kind = "a SentencePiece model";

// Reads the members of one message of Protocol Buffers.
class ProtoReader {
 public:
  ProtoReader(const std::string& file, std::string_view bytes) : file_(file), bytes_(bytes) {}

  // Reads the number and the value of the next member; false at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t key = varint();
    number_ = key >> 3;
    text_ = {}, value_ = 0;
    switch (key & 7) {
      case 0:
        return value_ = varint(), true;
      case 1:
        return text_ = take(8), true;
      case 2:
        return text_ = take(varint()), true;
      case 5:
        return text_ = take(4), true;
      default:
        broken("a member of an unknown wire type");
    }
  }
  std::uint64_t number() const { return number_; }
  std::uint64_t value() const { return value_; }
  bool flag() const { return value_ != 0; }
  std::string_view text() const { return text_; }
  float real() const {
    if (text_.size() != sizeof(float)) broken("a score that is no 32-bit number");
    float value = 0;
    std::memcpy(&value, text_.data(), sizeof value);
    return value;
  }
  [[noreturn]] void broken(const std::string& what) const {
    throw TokenizerError(file_ + ": has " + what + "; expected " + model_kind);
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) broken("a number that ends too early");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    broken("a number of more than 10 bytes");
  }
  std::string_view take(std::uint64_t length) {
    if (length > bytes_.size() - at_) broken("a member that ends behind the file");
    const std::string_view taken = bytes_.substr(at_, length);
    at_ += length;
    return taken;
  }

  const std::string& file_;
  const std::string_view bytes_;
  std::size_t at_ = 0;
  std::uint64_t number_ = 0, value_ = 0;
  std::string_view text_;
};

class SentenceReader {
 public:
  SentenceReader(const std::string& file, std::string_view bytes) : file_(file), bytes_(bytes) {}

  SentenceParts read() {
    ProtoReader model(file_, bytes_);
    while (model.next())
      if (model.number() == 1)
        read_piece(model.text());
      else if (model.number() == 2)
        read_trainer(model.text());
      else if (model.number() == 3)
        read_normaliser(model.text());
    check_pieces();
    return std::move(parts_);
  }
  // The piece that begins or ends a text; nothing if the model has none.
  std::optional<Token> begin() const { return control_named(begin_); }
  std::optional<Token> end() const { return control_named(end_); }

 private:
  [[noreturn]] void fault(const std::string& what, const std::string& expected) const {
    throw TokenizerError(file_ + ": " + printable(what) + "; expected " + expected);
  }
  static std::string named(std::size_t piece) { return "pieces[" + std::to_string(piece) + "]"; }

  void read_piece(std::string_view message) {
    SentenceParts::Piece piece;
    const std::string where = named(parts_.pieces.size());
    ProtoReader members(file_, message);
    while (members.next()) {
      if (members.number() == 1) piece.text = members.text();
      if (members.number() == 2) piece.score = members.real();
      if (members.number() == 3) {
        if (members.value() < 1 || members.value() > 6)
          fault(where + ".type is " + std::to_string(members.value()), "1 to 6");
        piece.kind = static_cast<Kind>(members.value());
      }
    }
    if (piece.text.empty() || piece.text.size() > piece_bytes_max || !is_utf8(piece.text))
      fault(where + ".piece is empty, too long or not UTF-8",
            "a text of at most " + std::to_string(piece_bytes_max) + " bytes");
    if (!std::isfinite(piece.score)) fault(where + ".score is not finite", "a number");
    if (!texts_.insert(piece.text).second)
      fault(where + " is \"" + piece.text + "\", like an earlier one", "each piece once");
    if (parts_.pieces.size() == pieces_max)
      fault("there are more than " + std::to_string(pieces_max) + " pieces", "fewer");
    parts_.pieces.push_back(std::move(piece));
  }

  void read_trainer(std::string_view message) {
    ProtoReader members(file_, message);
    while (members.next()) switch (members.number()) {
        case 3:
          if (members.value() != 1 && members.value() != 2)
            fault("model_type is " + std::to_string(members.value()), "1 (unigram) or 2 (BPE)");
          parts_.merges = members.value() == 2;
          break;
        case 24:
          parts_.blank_behind = members.flag();
          break;
        case 35:
          parts_.byte_fallback = members.flag();
          break;
        case 44:
          parts_.unknown_text = members.text();
          break;
        case 46:
          begin_ = members.text();
          break;
        case 47:
          end_ = members.text();
          break;
        default:
          break;
      }
  }

  void read_normaliser(std::string_view message) {
    ProtoReader members(file_, message);
    while (members.next()) switch (members.number()) {
        case 2:
          read_charsmap(members.text());
          break;
        case 3:
          parts_.adds_blank = members.flag();
          break;
        case 4:
          parts_.removes_blanks = members.flag();
          break;
        case 5:
          parts_.escapes_blanks = members.flag();
          break;
        default:
          break;
      }
  }

  static std::uint32_t number_at(std::string_view bytes, std::size_t at) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i)
      number |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
    return number;
  }

  // The size of the double array in bytes, the double array, and the replacements.
  void read_charsmap(std::string_view map) {
    parts_.sources.clear(), parts_.replacements.clear();
    if (map.empty()) return;
    const std::size_t size = map.size() < 4 ? 0 : number_at(map, 0);
    if (size == 0 || size % 4 != 0 || size > map.size() - 4)
      fault("precompiled_charsmap has a double array of " + std::to_string(size) + " bytes",
            "a multiple of 4 within its " + std::to_string(map.size()) + " bytes");
    for (std::size_t at = 4; at < 4 + size; at += 4) parts_.sources.push_back(number_at(map, at));
    parts_.replacements = map.substr(4 + size);
    if (!is_utf8(parts_.replacements)) fault("precompiled_charsmap is not UTF-8", "texts in UTF-8");
  }

  // Returns the byte of a piece "<0x0A>".
  static std::optional<unsigned> byte_of(std::string_view text) {
    static constexpr std::string_view digits = "0123456789ABCDEF";
    if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
    const std::size_t high = digits.find(text[3]), low = digits.find(text[4]);
    if (high == digits.npos || low == digits.npos) return std::nullopt;
    return static_cast<unsigned>(16 * high + low);
  }

  void check_pieces() {
    std::size_t unknown = 0, bytes = 0;
    for (std::size_t i = 0; i < parts_.pieces.size(); ++i) {
      const SentenceParts::Piece& piece = parts_.pieces[i];
      const auto token = static_cast<Token>(i);
      if (piece.kind == Kind::unknown) parts_.unknown = token, ++unknown;
      if (piece.kind != Kind::byte) continue;
      const auto byte = byte_of(piece.text);
      if (!byte) fault(named(i) + " is \"" + piece.text + "\", of type byte", "\"<0x00>\" to \"<0xFF>\"");
      parts_.bytes[*byte] = token, ++bytes;
    }
    if (unknown != 1)
      fault("there are " + std::to_string(unknown) + " pieces of type unknown", "exactly one");
    if (parts_.byte_fallback && bytes != parts_.bytes.size())
      fault("there are " + std::to_string(bytes) + " pieces of type byte, and byte_fallback is true", "256");
    for (std::size_t i = 0; i < parts_.pieces.size(); ++i)
      if (parts_.pieces[i].kind == Kind::control) controls_.emplace(parts_.pieces[i].text, i);
  }

  std::optional<Token> control_named(const std::string& name) const {
    const auto found = controls_.find(name);
    return found == controls_.end() ? std::nullopt : std::optional(static_cast<Token>(found->second));
  }

  const std::string& file_;
  const std::string_view bytes_;
  SentenceParts parts_;
  std::unordered_set<std::string> texts_;
  std::unordered_map<std::string, std::size_t> controls_;
  std::string begin_ = "<s>", end_ = "</s>";
};

nlohmann::json parse_beside(const std::string& file, const std::string& text) {
  if (text.empty()) return nlohmann::json::object();
  const std::string excess = exceeded_bound(text, beside_bounds);
  nlohmann::json parsed = excess.empty() ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json();
  if (!parsed.is_object())
    throw TokenizerError(file + ": is not a JSON object within the bounds; expected Hugging Face's file");
  return parsed;
}

// Throws for a token that is no piece of the model.
void reject_if_added(const SentencePieces& pieces, const std::string& file, const nlohmann::json& content,
                     const nlohmann::json& id) {
  const auto token = content.is_string() ? pieces.find(content.get_ref<const std::string&>()) : std::nullopt;
  if (token && id == *token) return;
  throw TokenizerError(file + ": token " + printable(id.dump() + " is " + content.dump()) +
                       ", which tokenizer.model does not have; expected pieces of tokenizer.model, or a "
                       "tokenizer.json of byte-level BPE");
}

void check_added_tokens(const SentencePieces& pieces, const nlohmann::json& config,
                        const nlohmann::json& added) {
  for (const auto& [content, id] : added.items()) reject_if_added(pieces, "added_tokens.json", content, id);
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder == config.end() || !decoder->is_object()) return;
  for (const auto& [id, token] : decoder->items()) {
    const auto content = token.is_object() ? token.find("content") : token.end();
    reject_if_added(pieces, "tokenizer_config.json",
                    token.is_object() && content != token.end() ? *content : nlohmann::json(),
                    nlohmann::json::parse(id, nullptr, false));
  }
}

bool config_flag(const nlohmann::json& config, const char* name, bool absent) {
  const auto value = config.find(name);
  if (value == config.end() || value->is_null()) return absent;
  if (!value->is_boolean())
    throw TokenizerError(std::string("tokenizer_config.json: ") + name + " is " + printable(value->dump()) +
                         "; expected true or false");
  return value->get<bool>();
}

std::string read_if_any(const std::filesystem::path& file) {
  return std::filesystem::exists(file) ? read_whole_file(file.string(), beside_bytes_max, "a JSON object")
                                       : "";
}

}  // namespace

Tokenizer sentence_tokenizer_of(const std::string& file, std::string_view bytes, const FilesBeside& beside) {
  SentenceReader reader(file, bytes);
  SentenceParts parts = reader.read();
  const nlohmann::json config = parse_beside("tokenizer_config.json", beside.config);
  // Versions of Hugging Face's code disagree about what it changes.
  if (parts.adds_blank && !config_flag(config, "add_prefix_space", true))
    throw TokenizerError("tokenizer_config.json: add_prefix_space is false, and " + file +
                         " puts a blank before each text; expected true, or a model without the blank");
  auto pieces = std::make_shared<const SentencePieces>(std::move(parts));
  check_added_tokens(*pieces, config, parse_beside("added_tokens.json", beside.added));
  std::vector<Token> before, behind;
  if (reader.begin() && config_flag(config, "add_bos_token", true)) before.push_back(*reader.begin());
  if (reader.end() && config_flag(config, "add_eos_token", false)) behind.push_back(*reader.end());
  return Tokenizer(std::move(pieces), std::move(before), std::move(behind));
}

Tokenizer read_sentence_tokenizer(const std::string& file) {
  try {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    return sentence_tokenizer_of(
        file, read_whole_file(file, model_bytes_max, model_kind),
        {read_if_any(folder / "tokenizer_config.json"), read_if_any(folder / "added_tokens.json")});
  } catch (const FileError& error) {
    throw TokenizerError(error.what());
  }
}

}  // namespace troupe
