#pragma once
// Splits text into pieces by a regular expression (PCRE2, with Unicode's classes): each match is a
// piece, and so is the text between two matches. `\s` is Unicode's white space, and U+180E, which
// is none since Unicode 6.3.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

class TextPieces {
 public:
  // Throws std::invalid_argument with the error and its position.
  explicit TextPieces(const std::string& pattern);

  // Calls `take` for each piece. Returns false if `take` did, or if the expression takes too long
  // on this text. `text` is UTF-8; a piece is a non-empty part of it.
  bool each(std::string_view text, const std::function<bool(std::string_view piece)>& take) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

// Returns the canonical composition (NFC) of the text, by utf8proc. Returns nothing if more than
// 128 combining marks are in a row: sorting them would take quadratic time.
std::optional<std::string> composed(std::string_view text);

}  // namespace troupe
