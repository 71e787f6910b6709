#pragma once
// Reads and writes scores in the forms of vLLM and SGLang, beside our own. Pure.
//
//   vLLM, /score and /v1/score    text_1 and text_2 (or queries and documents, queries and items, data_1 and
//                                 data_2): texts, one for all or one for each. A model that ranks texts
//                                 (model_text.h) reads them; another ranker takes them for a user's id and
//                                 items of its catalog. Reply: data[].score, 0 to 1
//   SGLang, /v1/score             query, items (texts, or lists of token ids), label_token_ids,
//                                 apply_softmax, item_first. Reply: scores[][], by item and label
//   vLLM, /generative_scoring     the same members, and add_special_tokens; apply_softmax is true if absent.
//                                 Reply: data[].score, the first label's
//
// SGLang joins texts before it tokenizes them; vLLM tokenizes each. A common beginning of all items
// is computed once. Members of those interfaces without effect here may have their default values.
// Without a softmax both return probabilities over the whole vocabulary. Those are not computed
// here, so that is refused with 400 unsupported_value. Other refusals are those of json.h,
// text_pairs.h and model_text.h.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "server/formats/text_pairs.h"

namespace troupe::server {

enum class ScoreForm : std::uint8_t { ours, pairs, lists, generative };
ScoreForm score_form(std::string_view path, std::string_view body);

struct ForeignScore {
  ScoreForm form = ScoreForm::pairs;
  std::variant<ScoreRequest, RankRequest> request;  // without tenant
  std::string model;                                // requested model; "" = any served one
  std::string candidates = {};                      // name of a ranking's candidates in the body
};
std::variant<ForeignScore, Refusal> read_score(ScoreForm form, std::string_view body, const ModelText& model,
                                               const ScoreLimits& limits);

// `model`: name that the client uses; `created_s`: seconds since 1970.
std::string score_body(const ForeignScore& asked, const Message& reply, const std::string& model,
                       std::int64_t created_s);

}  // namespace troupe::server
