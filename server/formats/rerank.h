#pragma once
// Reads and writes reranking requests in the form of Cohere, Jina and vLLM. The query names a user
// and the documents are items of the catalog. A model that ranks texts (model_text.h) takes a query
// and documents that are texts, unless a document has an `id`. Pure.
//
//   query             text: a user's id; a list of texts, or {"history":[…]}: item ids, without a profile
//   documents         list of item ids, each a text, or an object with `id` or `text`;
//                     at most router.candidates_max
//   top_n             number of results; absent or null = all
//   return_documents  each result has `document`: the item's id, and its title as `text`
//   model             as for completions
//   unknown, policy, arrangement, budget_us   as for rankings; pairs of texts have one arrangement,
//                     candidates_apart
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
#include "server/formats/text_pairs.h"

namespace troupe::server {

struct Rerank {
  RankRequest request;                 // without tenant
  std::optional<ScoreRequest> texts;   // replaces `request` when texts are ranked
  std::vector<std::string> documents;  // by the index that results name
  std::string model;                   // requested model; "" = any served one
  bool return_documents = false;
};
std::variant<Rerank, Refusal> read_rerank(std::string_view body, std::uint32_t candidates_max,
                                          std::uint32_t events_max, const ModelText& text = {},
                                          const ScoreLimits& limits = {});

// `model`: name that the client uses.
std::string rerank_body(const Rerank& asked, const RankReply& reply, const std::string& model);
std::string rerank_body(const Rerank& asked, const ScoreReply& reply, const std::string& model);

}  // namespace troupe::server
