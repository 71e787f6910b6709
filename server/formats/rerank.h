#pragma once
// Reads and writes reranking requests in the forms of Cohere, Jina and vLLM, and of TEI. The query
// names a user and the documents are items of the catalog. A model that ranks texts (model_text.h)
// takes a query and documents that are texts, unless a document has an `id`. Pure.
//
//   query             text: a user's id; or a history of the request's own: a list of texts, item ids, or an
//                     object with the members of a stored user, such as {"history":[…],"timestamps":[…]}
//   documents         list of item ids, each a text, or an object with `id` or `text`;
//                     at most router.candidates_max
//   top_n             number of results; absent or null = all
//   return_documents  each result has `document`: the item's id, and its title as `text`
//   rank_fields       of documents that are objects: ["text"] or ["id"]
//   max_tokens_per_doc  texts with more tokens are refused, as none is cut; 0 = no limit. Ids of items
//                     have no texts to bound, so beside them only 0 is taken
//   model             as for completions
//   unknown, unknown_user, request_timestamp, policy, arrangement, budget_us   as for rankings; pairs of
//                     texts have one arrangement, candidates_apart
//
// A body with `texts` in place of `documents` has TEI's form; its answer is a list. It may have
// raw_scores (false), return_text, truncate and truncation_direction. A text that is too long is
// refused, also with `truncate`.
//
// Other members of those interfaces may be null. Refusals are those of json.h, and 400
// unsupported_value.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/actor/messages.h"
#include "server/formats/own_names.h"
#include "server/formats/row_bodies.h"
#include "server/formats/text_pairs.h"

namespace troupe::server {

struct Rerank {
  RankRequest request;                 // without tenant
  std::optional<ScoreRequest> texts;   // replaces `request` when texts are ranked
  std::vector<std::string> documents;  // by the index that results name
  std::string model;                   // requested model; "" = any served one
  bool return_documents = false;
  OwnNames names = {};                    // of the history in `query`
  std::string list = "documents";         // name of the documents in the body; "texts" = TEI's form
  std::uint32_t document_tokens_max = 0;  // of each text; 0 = no limit
};
std::variant<Rerank, Refusal> read_rerank(std::string_view body, std::uint32_t candidates_max,
                                          const RowLimits& rows, const ModelText& text = {},
                                          const ScoreLimits& limits = {});

// `model`: name that the client uses.
std::string rerank_body(const Rerank& asked, const RankReply& reply, const std::string& model);
std::string rerank_body(const Rerank& asked, const ScoreReply& reply, const std::string& model);

}  // namespace troupe::server
