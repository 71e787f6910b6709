#pragma once
// Text in pieces by a regular expression (PCRE2, with Unicode's classes): each match is one, and so is what
// lies between two.
// `\s` is what Unicode calls white space, and U+180E, which it does not since its version 6.3.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

class TextPieces {
 public:
  // Throws std::invalid_argument with what is wrong with it, and where.
  explicit TextPieces(const std::string& pattern);

  // False: `take` said so, or the expression takes too long on this text. `text` is UTF-8; a piece is part of
  // it and not empty.
  bool each(std::string_view text, const std::function<bool(std::string_view piece)>& take) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

// Its canonical composition (NFC), by utf8proc. Nothing: it has more than 128 combining marks in a row, whose
// order would take time by the square of them.
std::optional<std::string> composed(std::string_view text);

}  // namespace troupe
