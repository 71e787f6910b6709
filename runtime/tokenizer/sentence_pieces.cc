// Divides normalised text into the pieces of a SentencePiece model. Scores are added and compared in the
// same precision as in that library, so that equal texts give equal tokens.
#include "runtime/tokenizer/sentence_pieces.h"

#include <algorithm>
#include <cfloat>
#include <ranges>

namespace troupe {
namespace {

using Kind = SentenceParts::Kind;

constexpr std::string_view escaped_blank = "\xe2\x96\x81";  // U+2581
constexpr float unknown_penalty = 10;
constexpr std::size_t growth_max = 32;

// Returns the length of the character at the beginning of a text in UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t bytes = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return std::min(bytes, text.size());
}

// A unit of a double array, in the form of Darts-clone.
struct TrieUnit {
  std::uint32_t unit = 0;
  bool has_leaf() const { return ((unit >> 8) & 1) == 1; }
  std::uint32_t value() const { return unit & 0x7fffffffu; }
  std::uint32_t label() const { return unit & 0x800000ffu; }
  std::uint32_t offset() const { return (unit >> 10) << ((unit & 0x200u) >> 6); }
};

struct Replacement {
  std::size_t bytes = 0;  // of the source; 0 = there is none
  std::uint32_t at = 0;   // in the replacements
};

// Returns the longest source at the beginning of the text.
Replacement find_replacement(std::span<const std::uint32_t> units, std::string_view text) {
  Replacement longest;
  if (units.empty()) return longest;
  std::uint32_t at = TrieUnit{units[0]}.offset();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (at >= units.size() || TrieUnit{units[at]}.label() != byte) break;
    const TrieUnit unit{units[at]};
    at ^= unit.offset();
    if (!unit.has_leaf()) continue;
    if (at >= units.size()) break;
    longest = {i + 1, TrieUnit{units[at]}.value()};
  }
  return longest;
}

std::string with_blanks(std::string_view piece) {
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const bool blank = piece.substr(at).starts_with(escaped_blank);
    text += blank ? ' ' : piece[at];
    at += blank ? escaped_blank.size() : 1;
  }
  return text;
}

std::string with_escaped_blanks(std::string_view text) {
  std::string piece;
  for (const char c : text) c == ' ' ? piece.append(escaped_blank) : piece.append(1, c);
  return piece;
}

bool stands_in_text(Kind kind) {
  return kind == Kind::normal || kind == Kind::user_defined || kind == Kind::unused;
}

}  // namespace

SentencePieces::SentencePieces(SentenceParts parts) : parts_(std::move(parts)) {
  score_min_ = FLT_MAX, score_max_ = FLT_MIN;
  for (std::size_t i = 0; i < parts_.pieces.size(); ++i) {
    const SentenceParts::Piece& piece = parts_.pieces[i];
    const auto token = static_cast<Token>(i);
    names_.emplace(piece.text, token);
    if (!stands_in_text(piece.kind)) continue;
    found_in_text_.emplace(piece.text, token);
    sorted_.push_back({piece.text, token});
    if (piece.kind == Kind::user_defined) user_defined_.push_back({piece.text, token});
    if (piece.kind == Kind::normal)
      score_min_ = std::min(score_min_, piece.score), score_max_ = std::max(score_max_, piece.score);
    longest_ = std::max(longest_, piece.text.size());
  }
  std::ranges::sort(sorted_, {}, &Named::text);
  std::ranges::sort(user_defined_, {}, &Named::text);
}

// Returns the part of `range` whose texts go on with `next`.
SentencePieces::Range SentencePieces::narrow(const std::vector<Named>& sorted, Range range, char next) const {
  const auto byte_at = [&](const Named& named) {
    return named.text.size() > range.length ? static_cast<unsigned char>(named.text[range.length]) : -1;
  };
  const auto from = sorted.begin() + range.begin, to = sorted.begin() + range.end;
  const auto found = std::ranges::equal_range(from, to, static_cast<unsigned char>(next), {}, byte_at);
  return {static_cast<std::uint32_t>(found.begin() - sorted.begin()),
          static_cast<std::uint32_t>(found.end() - sorted.begin()), range.length + 1};
}

// Returns the length of the longest user-defined piece at the beginning of the text; 0 = none.
std::size_t SentencePieces::user_defined_at(std::string_view text) const {
  std::size_t longest = 0;
  Range range{0, static_cast<std::uint32_t>(user_defined_.size()), 0};
  for (const char next : text) {
    if (range.begin == range.end) break;
    range = narrow(user_defined_, range, next);
    if (range.begin != range.end && user_defined_[range.begin].text.size() == range.length)
      longest = range.length;
  }
  return longest;
}

// Returns what stands for the beginning of the text, and the length of this beginning.
std::pair<std::string_view, std::size_t> SentencePieces::normalise_first(std::string_view text) const {
  if (const std::size_t bytes = user_defined_at(text); bytes > 0) return {text.substr(0, bytes), bytes};
  const Replacement found = find_replacement(parts_.sources, text);
  if (found.bytes == 0 || found.at >= parts_.replacements.size()) {
    const std::size_t bytes = character_bytes(text);
    return {text.substr(0, bytes), bytes};
  }
  const std::string_view rest = std::string_view(parts_.replacements).substr(found.at);
  return {rest.substr(0, rest.find('\0')), found.bytes};
}

// Returns nothing if the text grows too much.
std::optional<std::string> SentencePieces::normalised(std::string_view text) const {
  const std::size_t most = growth_max * (text.size() + 1);
  const std::string_view blank = parts_.escapes_blanks ? escaped_blank : " ";
  if (parts_.removes_blanks)
    while (!text.empty()) {
      const auto [shown, bytes] = normalise_first(text);
      if (shown != " ") break;
      text.remove_prefix(bytes);
    }
  std::string out;
  if (text.empty()) return out;
  if (parts_.adds_blank && !parts_.blank_behind) out += blank;
  bool behind_blank = parts_.removes_blanks;
  while (!text.empty()) {
    auto [shown, bytes] = normalise_first(text);
    if (behind_blank) shown.remove_prefix(std::min(shown.find_first_not_of(' '), shown.size()));
    for (const char c : shown) c == ' ' ? out.append(blank) : out.append(1, c);
    if (!shown.empty()) behind_blank = parts_.removes_blanks && shown.ends_with(' ');
    text.remove_prefix(bytes);
    if (out.size() > most) return std::nullopt;
  }
  if (parts_.removes_blanks)
    while (out.ends_with(blank)) out.resize(out.size() - blank.size());
  if (parts_.adds_blank && parts_.blank_behind) out += blank;
  return out;
}

// Returns the division with the largest sum of scores. The best way to each byte is known before the
// ways on from it are tried.
std::vector<SentencePieces::Found> SentencePieces::most_probable(std::string_view text) const {
  struct Best {
    float score = 0;
    Token token = -1;  // of the last piece; -1 = this byte has not been reached
    std::uint32_t from = 0;
  };
  std::vector<Best> best(text.size() + 1);
  const auto reach = [&](std::size_t from, std::size_t to, Token token, double sum) {
    if (best[to].token < 0 || sum > static_cast<double>(best[to].score))
      best[to] = {static_cast<float>(sum), token, static_cast<std::uint32_t>(from)};
  };
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t character = character_bytes(text.substr(from));
    bool single = false;  // a piece of this one character was found
    Range range{0, static_cast<std::uint32_t>(sorted_.size()), 0};
    for (std::size_t to = from + 1; to <= text.size(); ++to) {
      range = narrow(sorted_, range, text[to - 1]);
      if (range.begin == range.end) break;
      const Named& named = sorted_[range.begin];
      if (named.text.size() != range.length || kind(named.token) == Kind::unused) continue;
      const bool always = kind(named.token) == Kind::user_defined;
      const auto length = static_cast<float>(to - from);
      const double score = always ? static_cast<double>(length * score_max_) - 0.1
                                  : static_cast<double>(score_of(named.token));
      reach(from, to, named.token, score + static_cast<double>(best[from].score));
      single = single || to - from == character;
    }
    if (!single)
      reach(from, from + character, parts_.unknown,
            static_cast<double>(score_min_ - unknown_penalty + best[from].score));
    from += character;
  }
  std::vector<Found> found;
  for (std::size_t to = text.size(); to > 0; to = best[to].from)
    found.push_back({text.substr(best[to].from, to - best[to].from), best[to].token});
  std::ranges::reverse(found);
  return found;
}

Token SentencePieces::token_of(std::string_view text) const {
  const auto found = found_in_text_.find(text);  // a control piece of one character is not one of the text
  return found == found_in_text_.end() ? parts_.unknown : found->second;
}

// Queues the merge of two neighbours, if it is a piece.
void SentencePieces::offer(Work& work, std::int32_t left, std::int32_t right) const {
  if (left < 0 || right < 0) return;
  const Symbol &a = work.symbols[static_cast<std::size_t>(left)],
               &b = work.symbols[static_cast<std::size_t>(right)];
  if (a.frozen || b.frozen) return;
  const std::string_view whole = work.text.substr(a.begin, a.bytes + b.bytes);
  const auto found = found_in_text_.find(whole);
  if (found == found_in_text_.end()) return;
  const SentenceParts::Piece& piece = parts_.pieces[static_cast<std::size_t>(found->second)];
  work.heap.push_back({piece.score, left, right, static_cast<std::uint32_t>(whole.size())});
  std::push_heap(work.heap.begin(), work.heap.end());
  if (piece.kind == Kind::unused) work.parts[whole] = {whole.substr(0, a.bytes), whole.substr(a.bytes)};
}

void SentencePieces::merge(Work& work, const Pair& pair) const {
  Symbol &a = work.symbols[static_cast<std::size_t>(pair.left)],
         &b = work.symbols[static_cast<std::size_t>(pair.right)];
  if (a.bytes == 0 || b.bytes == 0 || a.bytes + b.bytes != pair.bytes) return;  // one has merged since
  a.bytes += b.bytes;
  a.next = b.next;
  if (b.next >= 0) work.symbols[static_cast<std::size_t>(b.next)].before = pair.left;
  b.bytes = 0;
  offer(work, a.before, pair.left);
  offer(work, pair.left, a.next);
}

// Adds a merged piece; an unused one as the two parts that it was made of.
void SentencePieces::add_used(const Work& work, std::string_view text, std::vector<Found>& found) const {
  std::vector<std::string_view> open{text};
  while (!open.empty()) {
    const std::string_view one = open.back();
    open.pop_back();
    const Token token = token_of(one);
    const auto parts = kind(token) == Kind::unused ? work.parts.find(one) : work.parts.end();
    if (parts == work.parts.end()) {
      found.push_back({one, token});
      continue;
    }
    open.push_back(parts->second.second);
    open.push_back(parts->second.first);
  }
}

std::vector<SentencePieces::Found> SentencePieces::merged(std::string_view text) const {
  Work work{.text = text};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t whole = user_defined_at(text.substr(at));
    const std::size_t bytes = whole > 0 ? whole : character_bytes(text.substr(at));
    const auto index = static_cast<std::int32_t>(work.symbols.size());
    work.symbols.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(bytes), index - 1,
                            at + bytes == text.size() ? -1 : index + 1, whole > 0});
    at += bytes;
  }
  for (std::int32_t i = 1; i < static_cast<std::int32_t>(work.symbols.size()); ++i) offer(work, i - 1, i);
  while (!work.heap.empty()) {
    std::pop_heap(work.heap.begin(), work.heap.end());
    const Pair pair = work.heap.back();
    work.heap.pop_back();
    merge(work, pair);
  }
  std::vector<Found> found;
  for (std::int32_t i = work.symbols.empty() ? -1 : 0; i >= 0;) {
    const Symbol& symbol = work.symbols[static_cast<std::size_t>(i)];
    add_used(work, text.substr(symbol.begin, symbol.bytes), found);
    i = symbol.next;
  }
  return found;
}

SentencePieces::Fault SentencePieces::encode(std::string_view text, std::size_t tokens_max,
                                             std::vector<Token>& out) const {
  const std::optional<std::string> whole = normalised(text);
  if (!whole) return Fault::too_slow;
  const std::size_t left = tokens_max - std::min(tokens_max, out.size());
  // A run of unknown characters is one token; all other tokens have at most `longest_` bytes.
  if (parts_.byte_fallback && whole->size() / longest_ > left) return Fault::too_many;
  bool behind_unknown = false;
  for (const Found& piece : parts_.merges ? merged(*whole) : most_probable(*whole)) {
    const bool unknown = piece.token == parts_.unknown;
    if (unknown && parts_.byte_fallback)
      for (const char c : piece.text) out.push_back(parts_.bytes[static_cast<unsigned char>(c)]);
    else if (!unknown || !behind_unknown)
      out.push_back(piece.token);
    behind_unknown = unknown;
    if (out.size() > tokens_max) return Fault::too_many;
  }
  return Fault::none;
}

std::string SentencePieces::text(Token token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= size()) return "";
  const SentenceParts::Piece& piece = parts_.pieces[static_cast<std::size_t>(token)];
  if (piece.kind == Kind::control || piece.kind == Kind::unknown) return piece.text;
  if (piece.kind != Kind::byte) return with_blanks(piece.text);
  return {static_cast<char>(std::ranges::find(parts_.bytes, token) - parts_.bytes.begin())};
}

std::string SentencePieces::decode(std::span<const Token> tokens) const {
  std::string decoded;
  bool drops_blank = parts_.adds_blank || parts_.removes_blanks;  // at the beginning
  for (const Token token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= size() || kind(token) == Kind::control) continue;
    std::string shown = kind(token) == Kind::unknown ? parts_.unknown_text : text(token);
    if (drops_blank && stands_in_text(kind(token)) && shown.starts_with(' ')) {
      shown.erase(0, 1);
      drops_blank = parts_.removes_blanks;
    }
    decoded += shown;
    drops_blank = drops_blank && decoded.empty();
  }
  return decoded;
}

std::optional<Token> SentencePieces::find(std::string_view name) const {
  auto named = names_.find(name);
  const std::string escaped = with_escaped_blanks(name);
  if (named == names_.end()) named = names_.find(escaped);
  return named == names_.end() ? std::nullopt : std::optional(named->second);
}

}  // namespace troupe
