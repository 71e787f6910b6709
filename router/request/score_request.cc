// Implements scoring of label tokens after query + item, the form that other engines offer (the
// plan `score` of docs/concepts/plans-and-scores.md). The query comes once, and each item after it
// is read at its last token. The blocks belong to one request only, so none has a name; features
// and the index are not needed.
#include <utility>

#include "router/fleet/fingerprint.h"
#include "router/request/ranking.h"
#include "router/request/request.h"

namespace troupe::router {
namespace {

class Scoring final : public RequestOf<ScoreRequest> {
 public:
  explicit Scoring(ScoreRequest&& request)
      : RequestOf(std::move(request)), fingerprint_(router::fingerprint(request_)) {}

  std::string_view kind() const override { return "score"; }
  std::uint64_t home() const override { return fingerprint_; }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::vector<Candidate> candidates(const PromptForm& form, const BlockNames& names) override;
  Message reply(RunResult&& result) override;

 private:
  std::uint64_t fingerprint_;  // of the whole request
};

Message Scoring::reply(RunResult&& result) {
  ScoreReply reply{.id = request_.id, .items = std::move(result.rows)};
  if (request_.apply_softmax)
    for (ScoreRow& row : reply.items) row.scores = softmax(row.scores);
  fill_run(result, reply);
  return reply;
}

std::vector<Candidate> Scoring::candidates(const PromptForm&, const BlockNames&) {
  std::vector<Candidate> made(1);
  Plan& plan = made[0].plan;
  made[0].name = "score";
  plan.segments.reserve(1 + request_.items.size());
  plan.readouts.reserve(request_.items.size());
  const auto start = static_cast<std::int32_t>(request_.query.size());
  if (start > 0) plan.segments.push_back({SegmentKind::user, std::move(request_.query), 0, {}});
  const VisibleSegments query = VisibleSegments::all_before(start > 0);
  for (TokenList& item : request_.items) {
    plan.readouts.push_back({static_cast<std::uint32_t>(plan.segments.size()),
                             static_cast<std::uint32_t>(item.tokens.size() - 1), request_.label_tokens});
    plan.segments.push_back({SegmentKind::item, std::move(item.tokens), start, query});
  }
  made[0].blocks.resize(plan.segments.size());
  return made;
}

}  // namespace

std::unique_ptr<Request> take_score(Message&& message, const Policy&) {
  return std::make_unique<Scoring>(std::get<ScoreRequest>(std::move(message)));
}

}  // namespace troupe::router
