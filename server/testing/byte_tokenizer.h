#pragma once
// A tokenizer for tests of texts.
#include <string>
#include <utility>

#include "runtime/tokenizer/tokenizer.h"

namespace troupe::server {

// Tokenizer where every byte is a token with its number. "<s>" is 256 and precedes a separate text.
inline const Tokenizer& byte_tokenizer() {
  static const Tokenizer made = [] {
    TokenizerParts parts;
    for (int byte = 0; byte < 256; ++byte) {
      parts.words.emplace(std::string(1, static_cast<char>(byte)), byte);
      parts.bytes[static_cast<std::size_t>(byte)] = byte;
    }
    parts.added = {{"<s>", 256}};
    parts.before = {256};
    return Tokenizer(std::move(parts));
  }();
  return made;
}

}  // namespace troupe::server
