// Lists the kinds of requests (rank, generate, complete, score, embed), and finds a message's kind.
#include "router/request/request.h"

namespace troupe::router {
namespace {

template <class RequestMessage>
bool is(const Message& message) {
  return std::holds_alternative<RequestMessage>(message);
}

constexpr RequestKind kinds[] = {
    {"rank", Metric::requests_rank, is<RankRequest>, take_rank},
    {"generate", Metric::requests_generate, is<GenerateRequest>, take_generate},
    {"complete", Metric::requests_complete, is<CompleteRequest>, take_complete},
    {"score", Metric::requests_score, is<ScoreRequest>, take_score},
    {"embed", Metric::requests_embed, is<EmbedRequest>, take_embed},
};

}  // namespace

std::string request_id_of(const Request& request) {
  const std::string_view own = request.client_request_id();
  return own.empty() ? trace_id(request.trace()) : std::string(own);
}

std::span<const RequestKind> request_kinds() { return kinds; }

const RequestKind* find_kind(const Message& message) {
  for (const RequestKind& kind : kinds)
    if (kind.is(message)) return &kind;
  return nullptr;
}

}  // namespace troupe::router
