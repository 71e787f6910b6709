// Implements scoring of label tokens after query + item, the form that other engines offer (the
// plan `score` of docs/concepts/plans-and-scores.md). The query comes once, and each item after it
// is read at its last token. The blocks belong to one request only, so none has a name; features
// and the index are not needed.
#include "router/fleet/fingerprint.h"
#include "router/request/ranking.h"
#include "router/request/request.h"

namespace troupe::router {
namespace {

class Scoring final : public Request {
 public:
  explicit Scoring(const ScoreRequest& request) : request_(request) {}

  RequestId id() const override { return request_.id; }
  std::string_view tenant() const override { return request_.tenant; }
  std::int64_t budget_us() const override { return request_.budget_us; }
  const TraceContext& trace() const override { return request_.trace; }
  std::optional<Refusal> validate(const PromptForm& form, const RequestLimits& limits) const override {
    return router::validate(request_, form, limits);
  }
  std::uint64_t home() const override { return fingerprint(); }
  std::uint64_t fingerprint() const override { return router::fingerprint(request_); }
  std::vector<Candidate> candidates(const PromptForm& form, const BlockNames& names) const override;
  Message reply(const RunResult& outcome) override;

 private:
  ScoreRequest request_;
};

Message Scoring::reply(const RunResult& outcome) {
  ScoreReply reply{.id = request_.id};
  for (const ScoreRow& row : outcome.rows)
    reply.items.push_back({request_.apply_softmax ? softmax(row.scores) : row.scores});
  reply.tokens_total = outcome.tokens_total;
  reply.tokens_computed = outcome.tokens_computed;
  reply.tokens_reused = outcome.tokens_reused;
  reply.model_version = outcome.model_version;
  reply.timings = outcome.timings;
  return reply;
}

std::vector<Candidate> Scoring::candidates(const PromptForm&, const BlockNames&) const {
  return {score_plan(request_)};
}

}  // namespace

Candidate score_plan(const ScoreRequest& request) {
  Candidate made{.name = "score"};
  const auto start = static_cast<std::int32_t>(request.query.size());
  if (start > 0) made.plan.segments.push_back({SegmentKind::user, request.query, 0, {}});
  const VisibleSegments query = VisibleSegments::all_before(start > 0);
  for (const TokenList& item : request.items) {
    made.plan.readouts.push_back({static_cast<std::uint32_t>(made.plan.segments.size()),
                                  static_cast<std::uint32_t>(item.tokens.size() - 1), request.label_tokens});
    made.plan.segments.push_back({SegmentKind::item, item.tokens, start, query});
  }
  made.blocks.resize(made.plan.segments.size());
  return made;
}

std::unique_ptr<Request> take_score(const Message& message, const Policy&) {
  return std::make_unique<Scoring>(std::get<ScoreRequest>(message));
}

}  // namespace troupe::router
