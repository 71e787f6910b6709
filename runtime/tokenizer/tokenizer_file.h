#pragma once
// Reads a model's tokenizer.json, in Hugging Face's form. Only byte-level BPE is supported; any
// other feature that would change a token is refused by name:
//
//   normalizer      null, NFC, or a sequence of NFC
//   pre_tokenizer   ByteLevel, or a sequence of Split by regular expressions (Isolated) that ends with
//                   ByteLevel; without add_prefix_space; its own expression (use_regex) is GPT-2's
//   model           BPE without dropout, unknown token, prefix, suffix and byte_fallback;
//                   ignore_merges may be set
//   added_tokens    not normalized, no single_word, lstrip or rstrip
//   decoder         ByteLevel, null
//   post_processor  null, ByteLevel, TemplateProcessing (the tokens around a single text are read, and
//                   added on request)
//   truncation, padding   null
//
// Every byte must be a word, so every text has tokens. A file of SentencePiece's kind (Unigram, or BPE
// with byte_fallback) is refused; the tokenizer.model beside it has the same pieces (sentence_file.h).
#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/tokenizer/tokenizer.h"

namespace troupe {

struct TokenizerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws TokenizerError, e.g. "FILE: normalizer is "Lowercase"; expected NFC, or null".
Tokenizer read_tokenizer(const std::string& file);
// Returns true if a file that is JSON describes a tokenizer of SentencePiece's kind. Throws TokenizerError if
// it cannot be read.
bool describes_sentence_pieces(const std::string& file);
// Does the same as read_tokenizer for the file's text.
Tokenizer tokenizer_of(const std::string& file, std::string_view json);

}  // namespace troupe
