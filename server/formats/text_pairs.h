#pragma once
// Builds score requests for texts, for a model that reads each candidate's score after its own
// tokens. The query takes the position of a history event, the document that of a candidate. Where the
// form writes the text between them, it becomes tokens together with the query ("tents?\n<Document>:"),
// as in a prompt that is tokenized as a whole. The score is the probability of `yes` against `no`. Pure.
#include <span>
#include <string>

#include "server/formats/model_text.h"

namespace troupe::server {

struct ScoreLimits {
  std::uint32_t items_max = 1024, labels_max = 256;
  std::uint32_t tokens_max = 262'144;  // of a whole request
  const char* tokens_setting = "router.request_tokens_max";
};

struct TextList {
  std::string name;  // name of the body's member
  std::vector<std::string> texts;
  std::uint32_t tokens_max = 0;  // of each text; 0 = no limit
};

// Takes one query for all documents, or one for each. Throws Refusal: 400 wrong_count, 413
// too_many_items, and those of model_text.h.
ScoreRequest score_pairs(const ModelText& model, const TextList& queries, const TextList& documents,
                         const ScoreLimits& limits);

}  // namespace troupe::server
