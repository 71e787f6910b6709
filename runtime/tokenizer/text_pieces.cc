// Splits text into pieces by a tokenizer's regular expression, and composes Unicode text (NFC).
// Time and memory per text are bounded, because the text comes from clients.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/tokenizer/text_pieces.h"

#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>

#include "kernels/base/check.h"

namespace troupe {
namespace {

constexpr std::uint32_t steps_max = 10'000'000;  // per match
constexpr std::uint32_t heap_kib_max = 16 << 10;
// In a row. utf8proc sorts them by insertion; real text has a handful.
constexpr std::size_t marks_max = 128;

struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

constexpr auto composing = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

// Returns the number of marks in a row up to this character, if `before` marks precede it. A
// decomposed character may itself consist of marks (U+0F73).
std::size_t marks_with(utf8proc_int32_t character, std::size_t before) {
  const utf8proc_property_t* const property = utf8proc_get_property(character);
  if (property->decomp_seqindex == UINT16_MAX) return property->combining_class == 0 ? 0 : before + 1;
  std::array<utf8proc_int32_t, 32> parts{};
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(character, parts.data(), parts.size(), composing, nullptr);
  for (std::size_t i = 0;
       i <
       std::min<std::size_t>(static_cast<std::size_t>(std::max<utf8proc_ssize_t>(count, 0)), parts.size());
       ++i)
    before = utf8proc_get_property(parts[i])->combining_class == 0 ? 0 : before + 1;
  return before;
}

bool has_long_marks(std::string_view text) {
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  for (std::size_t marks = 0; left > 0;) {
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t bytes = utf8proc_iterate(at, left, &character);
    if (bytes <= 0) return false;  // not UTF-8, so it is not composed
    marks = marks_with(character, marks);
    if (marks > marks_max) return true;
    at += bytes, left -= bytes;
  }
  return false;
}

}  // namespace

struct TextPieces::Compiled {
  pcre2_code* code = nullptr;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
  ~Compiled() { pcre2_code_free(code); }
};

TextPieces::TextPieces(const std::string& pattern) {
  auto made = std::make_shared<Compiled>();
  int error = 0;
  PCRE2_SIZE at = 0;
  made->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (!made->code) {
    PCRE2_UCHAR words[256] = {};
    pcre2_get_error_message(error, words, sizeof words);
    throw std::invalid_argument(std::string(reinterpret_cast<const char*>(words)) + " at byte " +
                                std::to_string(at));
  }
  pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE);  // without JIT, matching is slower
  made->context.reset(pcre2_match_context_create(nullptr));
  TROUPE_CHECK(made->context != nullptr, "there is memory for a match context");
  pcre2_set_match_limit(made->context.get(), steps_max);
  pcre2_set_heap_limit(made->context.get(), heap_kib_max);
  compiled_ = std::move(made);
}

bool TextPieces::each(std::string_view text, const std::function<bool(std::string_view)>& take) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(compiled_->code, nullptr));
  TROUPE_CHECK(match != nullptr, "there is memory for a match");
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::uint32_t options = PCRE2_NOTEMPTY;  // the first call checks that the text is UTF-8
  for (std::size_t at = 0; at < text.size();) {
    const int found =
        pcre2_match(compiled_->code, bytes, text.size(), at, options, match.get(), compiled_->context.get());
    if (found == PCRE2_ERROR_NOMATCH) return take(text.substr(at));
    if (found < 0) return false;
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(match.get());
    const std::size_t begin = std::max<std::size_t>(ends[0], at), end = ends[1];
    if (end <= at) return false;  // due to \K, which no known file uses
    if (begin > at && !take(text.substr(at, begin - at))) return false;
    if (!take(text.substr(begin, end - begin))) return false;
    at = end;
    options |= PCRE2_NO_UTF_CHECK;
  }
  return true;
}

std::optional<std::string> composed(std::string_view text) {
  // Text below U+0300 is always composed; its bytes are below 0xcc.
  if (std::ranges::none_of(text, [](unsigned char c) { return c >= 0xcc; })) return std::string(text);
  if (has_long_marks(text)) return std::nullopt;
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                              static_cast<utf8proc_ssize_t>(text.size()), &made, composing);
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, &std::free);
  if (bytes < 0) return std::string(text);  // not UTF-8
  return std::string(reinterpret_cast<const char*>(made), static_cast<std::size_t>(bytes));
}

}  // namespace troupe
