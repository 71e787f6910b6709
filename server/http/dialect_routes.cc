// Routes requests in the forms of other servers: OpenAI's, Cohere's, TEI's, vLLM's, SGLang's and KServe's.
#include "server/http/dialect_routes.h"

#include <algorithm>
#include <utility>

#include "runtime/wire/json_text.h"
#include "server/formats/embeddings.h"
#include "server/formats/inference_protocol.h"
#include "server/formats/rerank.h"
#include "server/formats/score_forms.h"
#include "server/formats/tokenization.h"

namespace troupe::server {

ScoreLimits score_limits(const ServerLimits& limits) {
  const bool by_memory = limits.pass_tokens_max < limits.request_tokens_max;
  return {limits.score_items_max, limits.score_labels_max,
          std::min(limits.pass_tokens_max, limits.request_tokens_max),
          by_memory ? "inference.memory_max" : "router.request_tokens_max"};
}

Refusal other_answer() {
  return {RefusalKind::internal, "wrong_answer", "the router answered with the wrong kind of message",
          "router", "an answer to the request"};
}

namespace {

template <class M>
Message with_tenant(M message, std::string_view tenant) {
  message.tenant = tenant;
  return Message{std::move(message)};
}

}  // namespace

HttpRoute route_rerank(const HttpRequest& request, const ServerLimits& limits, const ModelText& text) {
  auto read =
      read_rerank(request.body, limits.candidates_max, row_limits(limits), text, score_limits(limits));
  if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
  auto& asked = std::get<Rerank>(read);
  Message message = asked.texts ? with_tenant(*std::exchange(asked.texts, std::nullopt), request.tenant)
                                : with_tenant(asked.request, request.tenant);
  asked.request.candidates.clear();
  OwnNames names = asked.names;
  names.candidates = asked.list;
  return ShapedRequest{std::move(message),
                       [asked = std::move(asked)](const Message& reply, const AnsweringModel& model,
                                                  std::int64_t) -> std::variant<std::string, Refusal> {
                         const auto* ranked = std::get_if<RankReply>(&reply);
                         const auto* scored = std::get_if<ScoreReply>(&reply);
                         if (!ranked && !scored) return other_answer();
                         if (auto other = reject_if_other_model(
                                 asked.model, model, ranked ? ranked->model_version : scored->model_version))
                           return *other;
                         return ranked ? rerank_body(asked, *ranked, model.shown())
                                       : rerank_body(asked, *scored, model.shown());
                       },
                       std::move(names)};
}

// Routes a score request in vLLM's or SGLang's form.
HttpRoute route_foreign_score(ScoreForm form, const HttpRequest& request, const ServerLimits& limits,
                              const ModelText& text) {
  auto read = read_score(form, request.body, text, score_limits(limits));
  if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
  auto& asked = std::get<ForeignScore>(read);
  Message message = std::visit([&](auto& m) { return with_tenant(m, request.tenant); }, asked.request);
  // its answer needs nothing more of it
  if (auto* scores = std::get_if<ScoreRequest>(&asked.request)) *scores = {};
  OwnNames names{.candidates = asked.candidates};
  return ShapedRequest{std::move(message),
                       [asked = std::move(asked)](const Message& reply, const AnsweringModel& model,
                                                  std::int64_t now_s) -> std::variant<std::string, Refusal> {
                         const auto* ranked = std::get_if<RankReply>(&reply);
                         const auto* scored = std::get_if<ScoreReply>(&reply);
                         if (!ranked && !scored) return other_answer();
                         const std::string& version = ranked ? ranked->model_version : scored->model_version;
                         if (auto other = reject_if_other_model(asked.model, model, version)) return *other;
                         return score_body(asked, reply, model.shown().empty() ? version : model.shown(),
                                           now_s);
                       },
                       std::move(names)};
}

HttpRoute route_infer(const HttpRequest& request, std::string named, const ServerLimits& limits) {
  auto read = read_infer(request.body, limits.candidates_max, row_limits(limits));
  if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
  auto& asked = std::get<InferRequest>(read);
  Message message = std::visit([&](auto& m) { return with_tenant(m, request.tenant); }, asked.request);
  OwnNames names = asked.names;
  return ShapedRequest{std::move(message),
                       [asked = std::move(asked), named = std::move(named)](
                           const Message& reply, const AnsweringModel& model,
                           std::int64_t) -> std::variant<std::string, Refusal> {
                         if (auto other = reject_if_other_model(named, model, infer_version(reply)))
                           return *other;
                         return infer_body(asked, reply, named);
                       },
                       std::move(names)};
}

HttpRoute route_embeddings(const HttpRequest& request, const ServerLimits& limits, const ModelText& text) {
  auto read = read_embeddings(request.body, text, score_limits(limits), row_limits(limits));
  if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
  auto& asked = std::get<Embeddings>(read);
  Message message = with_tenant(std::exchange(asked.request, {}), request.tenant);
  OwnNames names = asked.names;
  return ShapedRequest{std::move(message),
                       [asked = std::move(asked)](const Message& reply, const AnsweringModel& model,
                                                  std::int64_t) -> std::variant<std::string, Refusal> {
                         const auto* embedded = std::get_if<EmbedReply>(&reply);
                         if (!embedded) return other_answer();
                         if (auto other = reject_if_other_model(asked.model, model, embedded->model_version))
                           return *other;
                         return embeddings_body(asked, *embedded, model.shown());
                       },
                       std::move(names)};
}

// Returns the tokens of a text. No actor is asked.
HttpRoute route_tokenize(const HttpRequest& request, const ServerLimits& limits, const ModelText& text) {
  auto read = tokenized(request.body, text, limits.prompt_tokens_max);
  if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
  return KnownAnswer{.body = std::get<std::string>(std::move(read)), .allow = ""};
}

}  // namespace troupe::server
