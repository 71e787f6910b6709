#pragma once
// Adds the texts of tokens to the explanation of a ranking, and writes the ranking's body. Only the
// server has the model's tokenizer and vocabulary.
#include <string>

#include "runtime/actor/messages.h"
#include "server/formats/model_text.h"

namespace troupe::server {

// Sets the texts of each segment, one per token; leaves them empty if the model has neither a tokenizer
// nor a vocabulary. With a tokenizer, the texts of a segment one behind the other are its text: a
// character of several tokens is in the text of the last of them. Without one they are names of the
// vocabulary; "" = the token has none.
void add_texts(const ModelText& model, Explanation& explanation);

// Returns the JSON of a ranking's reply, with texts in its explanation if it has one.
std::string rank_body(const RankReply& reply, const ModelText& model);

}  // namespace troupe::server
