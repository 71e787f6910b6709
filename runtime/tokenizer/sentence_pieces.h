#pragma once
// Text to tokens as SentencePiece does: the text is normalised, blanks become U+2581, and the whole is
// divided into pieces of the vocabulary: the most probable ones (unigram), or those that merges of
// neighbours give, the best score first (BPE). Characters that no piece has become their bytes
// (byte fallback), or one unknown token for a run of them. Control pieces, such as <s>, are never
// found in a text. sentence_file.h reads a model. Immutable, so any number of threads may use it.
//
// Debian's library is not used: it exports symbols of its own copy of Protocol Buffers, which collide
// with those of the library that this program links.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/base/plan.h"

namespace troupe {

using kernels::Token;

// Checked content of a file: texts are valid UTF-8 and distinct, there is one unknown piece, and with
// byte fallback every byte is a piece.
struct SentenceParts {
  enum class Kind : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    Kind kind = Kind::normal;
  };
  std::vector<Piece> pieces;  // by token
  Token unknown = 0;
  std::array<Token, 256> bytes{};  // with byte fallback
  bool merges = false;             // BPE; false = unigram
  bool byte_fallback = false;
  bool blank_behind = false;  // the added blank stands behind the text, not before it
  bool adds_blank = true, removes_blanks = true, escapes_blanks = true;
  // Replacements of the normaliser: a double array (Darts) of their sources, whose values are
  // positions in `replacements`, where each ends with a zero byte.
  std::vector<std::uint32_t> sources;
  std::string replacements;
  std::string unknown_text = " \u2047 ";  // what stands for the unknown token in decoded text
};

class SentencePieces {
 public:
  explicit SentencePieces(SentenceParts parts);
  SentencePieces(const SentencePieces&) = delete;
  SentencePieces& operator=(const SentencePieces&) = delete;

  enum class Fault : std::uint8_t { none, too_many, too_slow };
  // Appends the tokens of a text in UTF-8. too_many: `out` would have more than `tokens_max` tokens in
  // all. too_slow: the normaliser makes the text more than 32 times as long.
  Fault encode(std::string_view text, std::size_t tokens_max, std::vector<Token>& out) const;

  // Returns the text of the tokens. Control pieces have none, and a blank that was added before it is
  // removed.
  std::string decode(std::span<const Token> tokens) const;
  std::string text(Token token) const;                     // of one token; of a control piece its name
  std::optional<Token> find(std::string_view name) const;  // the piece of this name, blanks as themselves
  std::size_t size() const { return parts_.pieces.size(); }

 private:
  struct Named {
    std::string_view text;
    Token token = 0;
  };
  // A run of `sorted_` whose texts have a common beginning of `length` bytes.
  struct Range {
    std::uint32_t begin = 0, end = 0, length = 0;
  };
  struct Symbol {
    std::uint32_t begin = 0, bytes = 0;   // bytes 0 = merged into an earlier one
    std::int32_t before = -1, next = -1;  // -1 = none
    bool frozen = false;                  // a user-defined piece, which does not merge
  };
  struct Pair {
    float score = 0;
    std::int32_t left = 0, right = 0;
    std::uint32_t bytes = 0;
    bool operator<(const Pair& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  struct Work {
    std::string_view text;  // normalised
    std::vector<Symbol> symbols;
    std::vector<Pair> heap;
    // The two parts of merged pieces that are unused, by their text.
    std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> parts;
  };
  // A piece of the normalised text.
  struct Found {
    std::string_view text;
    Token token = 0;
  };

  SentenceParts::Kind kind(Token token) const { return parts_.pieces[static_cast<std::size_t>(token)].kind; }
  float score_of(Token token) const { return parts_.pieces[static_cast<std::size_t>(token)].score; }
  std::pair<std::string_view, std::size_t> normalise_first(std::string_view text) const;
  std::optional<std::string> normalised(std::string_view text) const;
  Range narrow(const std::vector<Named>& sorted, Range range, char next) const;
  std::size_t user_defined_at(std::string_view text) const;
  std::vector<Found> most_probable(std::string_view text) const;
  std::vector<Found> merged(std::string_view text) const;
  void offer(Work& work, std::int32_t left, std::int32_t right) const;
  void merge(Work& work, const Pair& pair) const;
  void add_used(const Work& work, std::string_view text, std::vector<Found>& found) const;
  Token token_of(std::string_view text) const;

  const SentenceParts parts_;
  std::unordered_map<std::string_view, Token> found_in_text_;  // normal, user-defined and unused pieces
  std::unordered_map<std::string_view, Token> names_;          // all pieces
  std::vector<Named> sorted_, user_defined_;
  float score_min_ = 0, score_max_ = 0;  // of normal pieces
  std::size_t longest_ = 1;              // bytes of the longest piece
};

}  // namespace troupe
