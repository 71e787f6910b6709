#pragma once
// A model's tokenizer.json, in Hugging Face's form. Of that form byte-level BPE is read, and whatever else a
// file has that would change a token is refused by name:
//
//   normalizer       null, NFC, or a sequence of those
//   pre_tokenizer    ByteLevel, or a sequence of Split by regular expressions (Isolated) and a ByteLevel at
//   its end, without
//                    add_prefix_space; its own expression (use_regex) is GPT-2's
//   model            BPE without dropout, unknown token, prefix, suffix and byte_fallback; ignore_merges or
//   not added_tokens     as they stand: not normalized, no single_word, lstrip, rstrip decoder ByteLevel,
//   null post_processor   null, ByteLevel, TemplateProcessing (what it puts around one text is known, and
//   added where asked for) truncation, padding   null
//
// Every byte has to be a word, so every text has tokens.
#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/tokenizer/tokenizer.h"

namespace troupe {

struct TokenizerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws TokenizerError: "FILE: normalizer is "Lowercase"; expected NFC, or null".
Tokenizer read_tokenizer(const std::string& file);
// The same of what the file says.
Tokenizer tokenizer_of(const std::string& file, std::string_view json);

}  // namespace troupe
