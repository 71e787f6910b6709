#pragma once
// Routes requests in the forms of other servers (server/formats/): reranking, scores, tensors,
// embeddings and tokens. Pure.
#include <string>

#include "server/formats/score_forms.h"
#include "server/http/http_routes.h"

namespace troupe::server {

ScoreLimits score_limits(const ServerLimits& limits);
Refusal other_answer();  // of a router that answered with the wrong kind of message

HttpRoute route_rerank(const HttpRequest& request, const ServerLimits& limits, const ModelText& text);
HttpRoute route_foreign_score(ScoreForm form, const HttpRequest& request, const ServerLimits& limits,
                              const ModelText& text);
// `named`: the model in the path.
HttpRoute route_infer(const HttpRequest& request, std::string named, const ServerLimits& limits);
HttpRoute route_embeddings(const HttpRequest& request, const ServerLimits& limits, const ModelText& text);
HttpRoute route_tokenize(const HttpRequest& request, const ServerLimits& limits, const ModelText& text);

}  // namespace troupe::server
