// The way of a score request: no features and no index, so it is sent at once.
#include "placement/heat/spread.h"
#include "router/core/answer_check.h"
#include "router/core/router_core.h"
#include "router/request/fingerprint.h"
#include "router/request/ranking.h"

namespace troupe::router {

void RouterCore::on_score(Turn turn, Address from, const ScoreRequest& request) {
  turn.effects.count(Metric::requests_score);
  const Asked asked{from, request.id, turn.now, turn.now + budget_of(request.budget_us)};
  const std::uint64_t print = fingerprint(request);
  const placement::Work work = score_work(config_.costs, request);
  Flight* flight = admit(turn, asked, print, work, find_fault(request, config_.form, config_.limits));
  if (!flight) return;
  flight->work = ScoreWork{request};
  flight->fingerprint = print;
  if (!refuse_poison(turn, *flight)) execute(turn, *flight);
}

void RouterCore::on_scored(Turn turn, Flight& flight, const Executed& executed) {
  const ScoreRequest& request = std::get<ScoreWork>(flight.work).request;
  ScoreReply reply{.id = flight.asked.id};
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    std::vector<double> scores = scores_of(executed, i, request.label_tokens.size());
    reply.items.push_back({request.apply_softmax ? softmax(scores) : std::move(scores)});
  }
  const TokenCount tokens = count_tokens(turn, flight.sent, executed);
  reply.tokens_total = tokens.total;
  reply.tokens_computed = tokens.computed;
  reply.tokens_reused = tokens.reused;
  reply.model_version = flight.pinned.model_version;
  reply.timings.blocks = executed.blocks_us;
  reply.timings.queue = executed.queue_us;
  reply.timings.compute = executed.compute_us;
  reply.timings.pull = executed.pull_us;
  reply.timings.total = (turn.now - flight.asked.received).us;
  turn.effects.send(flight.asked.from, std::move(reply));
  close(turn, flight);
}

}  // namespace troupe::router
