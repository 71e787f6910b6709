// Converts text to tokens and back: finds added tokens, splits the text between them into pieces
// and merges each piece into tokens. Words that are one token are looked up as a whole. A SentencePiece
// model is asked instead if there is one.
#include "runtime/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "runtime/wire/json_text.h"

namespace troupe {

Tokenizer::Tokenizer(TokenizerParts parts)
    : bytes_(parts.bytes),
      merges_(parts.bytes, parts.merges),
      added_(1),
      pieces_(std::move(parts.pieces)),
      composes_(parts.composes),
      before_(std::move(parts.before)),
      behind_(std::move(parts.behind)) {
  const auto keep = [&](const std::string& text, Token token) {
    if (texts_.size() <= static_cast<std::size_t>(token)) texts_.resize(static_cast<std::size_t>(token) + 1);
    texts_[static_cast<std::size_t>(token)] = text;
  };
  BytePairs::Work work;
  std::vector<Token> merged;
  words_.reserve(parts.words.size());
  for (const auto& [text, token] : parts.words) {
    keep(text, token);
    merged.clear();
    merges_.encode(text, work, merged);
    words_.emplace(text, Word{token, parts.whole_words || (merged.size() == 1 && merged.front() == token)});
  }
  for (const AddedToken& added : parts.added) {
    keep(added.text, added.token);
    add(added);
  }
}

Tokenizer::Tokenizer(std::shared_ptr<const SentencePieces> pieces, std::vector<Token> before,
                     std::vector<Token> behind)
    : added_(1), before_(std::move(before)), behind_(std::move(behind)), sentence_(std::move(pieces)) {
  for (std::size_t token = 0; token < sentence_->size(); ++token)
    texts_.push_back(sentence_->text(static_cast<Token>(token)));
}

void Tokenizer::add(const AddedToken& added) {
  std::uint32_t node = 0;
  for (const char c : added.text) {
    std::uint32_t next = step(node, c);
    if (next == 0) {
      next = static_cast<std::uint32_t>(added_.size());
      added_.emplace_back();
      added_[node].next.emplace_back(c, next);
      std::ranges::sort(added_[node].next);
    }
    node = next;
  }
  added_[node].token = added.token;
  added_[node].is_control = added.is_control;
  if (!added.is_control) return;
  const auto at = static_cast<std::size_t>(added.token);
  if (controls_.size() <= at) controls_.resize(at + 1);
  controls_[at] = true;
}

bool Tokenizer::is_control(Token token) const {
  const auto at = static_cast<std::size_t>(token);
  return at < controls_.size() && controls_[at];
}

std::uint32_t Tokenizer::step(std::uint32_t node, char c) const {
  const auto& next = added_[node].next;
  const auto at = std::ranges::lower_bound(next, c, {}, &std::pair<char, std::uint32_t>::first);
  return at == next.end() || at->first != c ? 0 : at->second;
}

// Returns the length of the longest added token at the start of `text`; 0 = none. With as_text, control
// tokens do not count.
std::size_t Tokenizer::added_at(std::string_view text, ControlTokens controls, Token& token) const {
  std::size_t longest = 0;
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    node = step(node, text[i]);
    if (node == 0) break;
    if (!added_[node].token) continue;
    if (added_[node].is_control && controls == ControlTokens::as_text) continue;
    longest = i + 1;
    token = *added_[node].token;
  }
  return longest;
}

namespace {

Tokenizer::Fault fault_of(SentencePieces::Fault fault) {
  if (fault == SentencePieces::Fault::none) return Tokenizer::Fault::none;
  return fault == SentencePieces::Fault::too_many ? Tokenizer::Fault::too_many : Tokenizer::Fault::too_slow;
}

}  // namespace

Tokenizer::Fault Tokenizer::encode(std::string_view text, std::size_t tokens_max, std::vector<Token>& out,
                                   ControlTokens controls) const {
  if (!is_utf8(text)) return Fault::no_text;
  // Control pieces are never found in a text.
  if (sentence_) return fault_of(sentence_->encode(text, tokens_max, out));
  Job job{.out = out, .tokens_max = tokens_max, .controls = controls};
  std::size_t begin = 0;  // start of the text before the next added token
  for (std::size_t at = 0; at < text.size();) {
    Token token = 0;
    const std::size_t bytes = added_at(text.substr(at), controls, token);
    if (bytes == 0) {
      ++at;
      continue;
    }
    if (!encode_between(text.substr(begin, at - begin), job)) return job.fault;
    if (out.size() >= tokens_max) return Fault::too_many;
    out.push_back(token);
    begin = at += bytes;
  }
  return encode_between(text.substr(begin), job) ? Fault::none : job.fault;
}

bool Tokenizer::encode_between(std::string_view text, Job& job) const {
  if (text.empty()) return true;
  if (!composes_) return encode_pieces(text, 0, job);
  if (const auto whole = composed(text)) return encode_pieces(*whole, 0, job);
  job.fault = Fault::too_slow;
  return false;
}

bool Tokenizer::encode_pieces(std::string_view text, std::size_t level, Job& job) const {
  if (level == pieces_.size()) return encode_piece(text, job);
  if (pieces_[level].each(text, [&](std::string_view piece) { return encode_pieces(piece, level + 1, job); }))
    return true;
  if (job.fault == Fault::none) job.fault = Fault::too_slow;
  return false;
}

bool Tokenizer::encode_piece(std::string_view piece, Job& job) const {
  const auto word = words_.find(piece);
  const std::size_t before = job.out.size();
  if (word != words_.end() && word->second.whole)
    job.out.push_back(word->second.token);
  else
    merges_.encode(piece, job.work, job.out);
  if (job.controls == ControlTokens::as_text) spell_controls(job.out, before);
  if (job.out.size() <= job.tokens_max) return true;
  job.fault = Fault::too_many;
  return false;
}

// Replaces control tokens from `begin` on by the tokens of their bytes: a control token may be a word of the
// vocabulary, too.
void Tokenizer::spell_controls(std::vector<Token>& out, std::size_t begin) const {
  const auto from = out.begin() + static_cast<std::ptrdiff_t>(begin);
  if (std::none_of(from, out.end(), [&](Token token) { return is_control(token); })) return;
  const std::vector<Token> made(from, out.end());
  out.resize(begin);
  for (const Token token : made) {
    if (!is_control(token)) {
      out.push_back(token);
      continue;
    }
    for (const char c : text(token)) out.push_back(bytes_[static_cast<std::uint8_t>(c)]);
  }
}

const std::string& Tokenizer::text(Token token) const {
  static const std::string none;
  return token >= 0 && token < end() ? texts_[static_cast<std::size_t>(token)] : none;
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
  if (sentence_) return sentence_->decode(tokens);
  std::string decoded;
  for (const Token token : tokens) decoded += text(token);
  return decoded;
}

std::optional<Token> Tokenizer::find(std::string_view wanted) const {
  if (sentence_) return sentence_->find(wanted);
  Token token = 0;
  if (!wanted.empty() && added_at(wanted, ControlTokens::as_tokens, token) == wanted.size()) return token;
  const auto word = words_.find(wanted);
  return word == words_.end() ? std::nullopt : std::optional(word->second.token);
}

}  // namespace troupe
