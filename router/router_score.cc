// Scores of label tokens after query + item (the plan "candidates" of segments.md): the query once, each item
// after it, read at its last token. Such blocks belong to one request only, so none has a name.
#include "router/ranking.h"
#include "router/router_core.h"

namespace troupe::router {

void RouterCore::on_score(Turn turn, Address from, const ScoreRequest& request) {
  turn.effects.count(Metric::requests_score);
  if (!admit(turn, from, request.id, find_fault(request, config_.form, config_.limits))) return;
  const Serial serial = next_id_++;
  Execute plan = score_plan(request);
  plan.id = serial;
  plan.budget_us = budget_of(request.budget_us).us;
  scorings_[serial] = {ask(turn, from, request.id, serial, request.budget_us),
                       request.items.size(),
                       request.label_tokens.size(),
                       request.apply_softmax,
                       config_.workers.front(),
                       remember(plan.segments)};
  turn.effects.send({config_.workers.front(), Role::inference_worker}, std::move(plan));
  count_in_flight(turn);
}

Execute RouterCore::score_plan(const ScoreRequest& request) const {
  Execute plan;
  std::vector<std::uint32_t> sees;
  if (!request.query.empty()) {
    plan.segments.push_back({SegmentKind::user, request.query});
    sees.push_back(0);
  }
  const auto start = static_cast<std::int32_t>(request.query.size());
  for (const TokenList& item : request.items) {
    plan.readouts.push_back({static_cast<std::uint32_t>(plan.segments.size()),
                             static_cast<std::uint32_t>(item.tokens.size() - 1), request.label_tokens});
    plan.segments.push_back({SegmentKind::item, item.tokens, start, sees});
  }
  return plan;
}

void RouterCore::on_scored(Turn turn, Serial serial, const Executed& executed) {
  const Scoring& scoring = scorings_.at(serial);
  bool sound = executed.readouts.size() == scoring.items && executed.reused.size() == scoring.sent.size();
  for (const ScoreRow& row : executed.readouts)
    sound = sound && row.scores.size() == scoring.labels && all_finite(row.scores);
  if (!sound)
    return refuse_request(turn, serial,
                          {500, "bad_model_output", "the logits are not one finite number per item and label",
                           "inference worker", "finite logits in the plan's shape"});
  const Asked asked = scoring.asked;
  ScoreReply reply{.id = asked.id, .items = executed.readouts};
  if (scoring.apply_softmax)
    for (ScoreRow& row : reply.items) row.scores = softmax(row.scores);
  const TokenCount tokens = count_tokens(turn, scoring.sent, executed);
  reply.tokens_total = tokens.total;
  reply.tokens_computed = tokens.computed;
  reply.tokens_reused = tokens.reused;
  reply.model_version = config_.names.model_version;
  reply.timings.blocks = executed.blocks_us;
  reply.timings.queue = executed.queue_us;
  reply.timings.compute = executed.compute_us;
  reply.timings.total = (turn.now - asked.received).us;
  turn.effects.send(asked.from, std::move(reply));
  close(turn, asked, serial);
}

}  // namespace troupe::router
