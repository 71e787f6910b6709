#pragma once
// Reads and writes embedding requests in OpenAI's form. A model that reads text embeds texts or lists of
// token ids; a model whose tokens are items embeds a user, whose id is the input. Pure.
//
//   input              text, or a list of texts; token ids, or a list of lists of them; of a model whose
//                      tokens are items: a user's id, or an object with the members of a stored user, such
//                      as {"history":[…],"timestamps":[…]}; or a list with one of these
//   encoding_format    float (absent) or base64: 32-bit numbers, the least significant byte first
//   add_special_tokens false = without the tokens of the tokenizer's template; true if absent
//   model              as for completions
//   user               ignored, as in OpenAI's form it names who asks
//   request_timestamp, budget_us   as for rankings
//
// `dimensions` is refused: no embedding is cut. Other refusals are those of json.h and model_text.h, and
// 400 unsupported_value.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"
#include "server/formats/own_names.h"
#include "server/formats/row_bodies.h"
#include "server/formats/text_pairs.h"

namespace troupe::server {

struct Embeddings {
  EmbedRequest request;  // without tenant
  std::string model;     // requested model; "" = any served one
  bool in_base64 = false;
  OwnNames names = {};  // of the history in `input`
};
std::variant<Embeddings, Refusal> read_embeddings(std::string_view body, const ModelText& text,
                                                  const ScoreLimits& limits, const RowLimits& rows = {});

// `model`: name that the client uses.
std::string embeddings_body(const Embeddings& asked, const EmbedReply& reply, const std::string& model);

// Returns the numbers as 32-bit ones in base64.
std::string base64_of(std::span<const double> numbers);

}  // namespace troupe::server
