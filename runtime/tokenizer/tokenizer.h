#pragma once
// Text to tokens and back, as a Hugging Face tokenizer of byte-level BPE does (Qwen, Llama 3, GPT-2): tokens
// that were added by name are found first, the longest that begins there; what lies between them is composed
// (NFC) where the file says so, cut into pieces by its regular expressions, and each piece becomes tokens by
// its merges. tokenizer_file.h reads one.
//
// Nothing changes after it is made, so any number of threads may use it. The merges of most words are done
// when it is read: a word of the vocabulary whose merges make itself is found as a whole.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/tokenizer/byte_pairs.h"
#include "runtime/tokenizer/text_pieces.h"

namespace troupe {

// What a file says, checked: ids are from 0, each has one text, every byte is a word, and merges make words.
struct TokenizerParts {
  std::unordered_map<std::string, Token> words;  // as bytes
  std::array<Token, 256> bytes{};
  std::vector<BytePairMerge> merges;
  std::vector<std::pair<std::string, Token>> added;  // none is empty
  std::vector<TextPieces> pieces;                    // one after the other
  bool composes = false;                             // NFC
  bool whole_words = false;           // a word of the vocabulary is one token, whatever its merges
  std::vector<Token> before, behind;  // of a text by itself: the template of its post-processor
};

class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);

  enum class Fault : std::uint8_t { none, no_text, too_many, too_slow };
  // Appends; with a fault, `out` may have some. no_text: it is no UTF-8; too_many: than `tokens_max`, in
  // `out` as a whole; too_slow: its regular expression takes too long on this text, or it has too many
  // combining marks in a row (`composed`).
  Fault encode(std::string_view text, std::size_t tokens_max, std::vector<Token>& out) const;

  // Bytes: a token may be a part of a character. Of what it has no text for, nothing.
  std::string decode(std::span<const Token> tokens) const;
  const std::string& text(Token token) const;
  std::optional<Token> find(std::string_view text) const;  // of one token

  Token end() const { return static_cast<Token>(texts_.size()); }  // all its tokens are below
  std::span<const Token> before() const { return before_; }
  std::span<const Token> behind() const { return behind_; }

 private:
  struct Word {
    Token token = 0;
    bool whole = false;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  // The bytes of added tokens, from the first on; 0 is where all begin.
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> next;
    std::optional<Token> token;
  };
  struct Job {
    std::vector<Token>& out;
    std::size_t tokens_max = 0;
    Fault fault = Fault::none;
    BytePairs::Work work = {};
  };

  void add(const std::string& text, Token token);
  std::uint32_t step(std::uint32_t node, char c) const;  // 0: none
  std::size_t added_at(std::string_view text, Token& token) const;
  bool encode_between(std::string_view text, Job& job) const;
  bool encode_pieces(std::string_view text, std::size_t level, Job& job) const;
  bool encode_piece(std::string_view piece, Job& job) const;

  std::unordered_map<std::string, Word, Hash, std::equal_to<>> words_;
  std::vector<std::string> texts_;  // by token
  BytePairs merges_;
  std::vector<Node> added_;
  std::vector<TextPieces> pieces_;
  bool composes_ = false;
  std::vector<Token> before_, behind_;
};

}  // namespace troupe
