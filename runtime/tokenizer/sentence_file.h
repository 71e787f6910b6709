#pragma once
// Reads a model's tokenizer.model, in SentencePiece's form (a ModelProto of Protocol Buffers): unigram
// and BPE, with or without byte fallback, with the normaliser that the file carries. Anything else that
// would change a token is refused by name.
//
// tokenizer_config.json beside it, of Hugging Face, may have add_bos_token and add_eos_token: the tokens
// around a single text, which are added on request. As there, the first is true if absent. Tokens that
// were added beside the pieces (added_tokens_decoder, added_tokens.json) are refused, because how a
// text is divided around them depends on the program that added them.
#include <string>
#include <string_view>

#include "runtime/tokenizer/tokenizer_file.h"

namespace troupe {

// Throws TokenizerError, e.g. "FILE: model_type is 3; expected 1 (unigram) or 2 (BPE)".
Tokenizer read_sentence_tokenizer(const std::string& file);
// Does the same for the file's bytes and the texts of the files beside it; "" = there is none.
struct FilesBeside {
  std::string config, added;  // tokenizer_config.json, added_tokens.json
};
Tokenizer sentence_tokenizer_of(const std::string& file, std::string_view bytes,
                                const FilesBeside& beside = {});

}  // namespace troupe
