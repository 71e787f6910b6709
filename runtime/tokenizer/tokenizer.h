#pragma once
// Converts text to tokens and back, in one of two ways:
// - like a Hugging Face tokenizer of byte-level BPE (Qwen, Llama 3, GPT-2). Added tokens are found
//   first, the longest one at each position. The text between them is composed (NFC) if the file says
//   so and split into pieces by its regular expressions. Merges then turn each piece into tokens.
//   tokenizer_file.h reads such a tokenizer.
// - as SentencePiece does (sentence_pieces.h); sentence_file.h reads such a tokenizer.
//
// Texts that other people wrote, such as titles, must not steer the model. With ControlTokens::as_text,
// control tokens in a text are encoded as their characters, and no such token is ever in the result.
//
// A tokenizer is immutable, so any number of threads may use it. The merges of most words are
// computed when it is read: a vocabulary word that its own merges produce is found as a whole.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/tokenizer/byte_pairs.h"
#include "runtime/tokenizer/sentence_pieces.h"
#include "runtime/tokenizer/text_pieces.h"

namespace troupe {

// A token with a text of its own, apart from the vocabulary's merges.
struct AddedToken {
  std::string text;
  Token token = 0;
  bool is_control = true;  // "special" in the file, or not said there
};

// Meaning of a control token's name in a text that is encoded: the token, or its characters.
enum class ControlTokens : std::uint8_t { as_tokens, as_text };

// Checked content of a file: ids start at 0, each id has one text, every byte is a word, and merges
// produce words.
struct TokenizerParts {
  std::unordered_map<std::string, Token> words;  // words as bytes
  std::array<Token, 256> bytes{};
  std::vector<BytePairMerge> merges;
  std::vector<AddedToken> added;   // no text is empty
  std::vector<TextPieces> pieces;  // applied one after the other
  bool composes = false;           // composes text (NFC)
  bool whole_words = false;        // a vocabulary word is one token, whatever its merges
  // tokens around a single text, from the template of its post-processor
  std::vector<Token> before, behind;
};

class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);
  // `before`, `behind`: the tokens around a single text.
  Tokenizer(std::shared_ptr<const SentencePieces> pieces, std::vector<Token> before,
            std::vector<Token> behind);

  enum class Fault : std::uint8_t { none, no_text, too_many, too_slow };
  // Appends the tokens of `text`; on a fault, `out` may have got some of them. no_text: not UTF-8.
  // too_many: `out` would have more than `tokens_max` tokens in all. too_slow: the regular
  // expression takes too long, too many combining marks are in a row (`composed`), or a normaliser makes
  // the text far longer.
  Fault encode(std::string_view text, std::size_t tokens_max, std::vector<Token>& out,
               ControlTokens controls = ControlTokens::as_tokens) const;

  // Returns the bytes of the tokens; a token may be part of a character. Tokens without text, and control
  // pieces of SentencePiece, give nothing.
  std::string decode(std::span<const Token> tokens) const;
  const std::string& text(Token token) const;
  std::optional<Token> find(std::string_view text) const;  // the token with exactly this text

  Token end() const { return static_cast<Token>(texts_.size()); }  // all tokens are below this
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
  // Trie of the bytes of added tokens; node 0 is its root.
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> next;
    std::optional<Token> token;
    bool is_control = false;
  };
  struct Job {
    std::vector<Token>& out;
    std::size_t tokens_max = 0;
    ControlTokens controls = ControlTokens::as_tokens;
    Fault fault = Fault::none;
    BytePairs::Work work = {};
  };

  void add(const AddedToken& added);
  bool is_control(Token token) const;
  std::uint32_t step(std::uint32_t node, char c) const;  // 0 = no such node
  std::size_t added_at(std::string_view text, ControlTokens controls, Token& token) const;
  bool encode_between(std::string_view text, Job& job) const;
  bool encode_pieces(std::string_view text, std::size_t level, Job& job) const;
  bool encode_piece(std::string_view piece, Job& job) const;
  void spell_controls(std::vector<Token>& out, std::size_t begin) const;

  std::unordered_map<std::string, Word, Hash, std::equal_to<>> words_;
  std::vector<std::string> texts_;  // indexed by token
  std::vector<bool> controls_;      // indexed by token; those behind its end are none
  std::array<Token, 256> bytes_{};  // the token of each byte
  BytePairs merges_;
  std::vector<Node> added_;
  std::vector<TextPieces> pieces_;
  bool composes_ = false;
  std::vector<Token> before_, behind_;
  std::shared_ptr<const SentencePieces> sentence_;  // null = byte-level BPE
};

}  // namespace troupe
