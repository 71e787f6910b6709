// Makes a request's reply from the scores and paths that a worker computed.
#include "router/flights/answers.h"

#include <cmath>
#include <utility>

#include "router/request/plans.h"

namespace troupe::router {
namespace {

// Token counts of an executed plan.
struct TokenCount {
  std::uint32_t total = 0, computed = 0, reused = 0, blocks_reused = 0;
};

// Counts the tokens of the prompt. A block that fills a reused span is not itself part of the
// prompt: the span counts as reused if the block was there, except for its repaired tokens.
TokenCount count_tokens(Step step, const Candidate& sent, const std::vector<std::uint8_t>& reused) {
  const auto is_reused = [&](std::size_t i) { return i < reused.size() && reused[i] != 0; };
  TokenCount count;
  std::vector<bool> is_block(sent.blocks.size());
  double spans = 0, kept = 0;  // tokens of all spans, and of the spans whose block was there
  for (const kernels::Repair::ReusedSpan& span : sent.plan.repair.reused_spans) {
    is_block[span.block] = true;
    const auto tokens = static_cast<double>(sent.plan.segments[span.segment].tokens.size());
    spans += tokens;
    if (is_reused(span.block) || span.of_prototypes) kept += tokens;
  }
  double hits[2] = {}, misses[2] = {};  // of items and the system prompt; of users
  for (std::size_t i = 0; i < sent.blocks.size(); ++i) {
    const Segment& segment = sent.plan.segments[i];
    const auto tokens = static_cast<std::uint32_t>(segment.tokens.size());
    count.blocks_reused += is_reused(i);
    if (!is_block[i]) {
      count.total += tokens;
      (is_reused(i) ? count.reused : count.computed) += tokens;
    }
    if (sent.blocks[i].name) ++(is_reused(i) ? hits : misses)[segment.kind == SegmentKind::user];
  }
  if (kept > 0) {
    const auto left = static_cast<double>(kept_tokens(sent.plan));
    const auto tokens = static_cast<std::uint32_t>(std::llround(left * kept / spans));
    count.reused += tokens;
    count.computed -= tokens;
  }
  step.effects.count(Metric::tokens_total, count.total);
  step.effects.count(Metric::tokens_computed, count.computed);
  step.effects.count(Metric::tokens_reused, count.reused);
  step.effects.count(Metric::blocks_hit_item, hits[0]);
  step.effects.count(Metric::blocks_hit_user, hits[1]);
  const auto in_place = static_cast<double>(sent.in_place.size());  // their blocks were missing, too
  step.effects.count(Metric::blocks_computed_item, misses[0] + in_place);
  step.effects.count(Metric::blocks_computed_user, misses[1]);
  return count;
}

}  // namespace

void Answers::answer(Step step, Flight& flight, NodeId node, Executed executed) {
  const Candidate& sent = flight.plans.front().candidate;
  const TokenCount tokens = count_tokens(step, sent, executed.reused);
  RunResult result{.rows = std::move(executed.readouts),
                   .beams = std::move(executed.beams),
                   .plan = sent.name,
                   .tokens_total = tokens.total,
                   .tokens_computed = tokens.computed,
                   .tokens_reused = tokens.reused,
                   .blocks_reused = tokens.blocks_reused,
                   .blocks_written = executed.blocks_written,
                   .timings = flight.timings,
                   .model_version = flight.pinned.model_version,
                   .node = node,
                   .approximate = approximate_share(sent),
                   .sent = &sent,
                   .reused = executed.reused};
  Timings& timings = result.timings;
  timings.blocks = executed.blocks_us;
  timings.queue = executed.queue_us;
  timings.compute = executed.compute_us;
  timings.pull = executed.pull_us;
  timings.total = (step.now - flight.origin.received).us;
  if (const Attempt* attempt = flight.attempt_at(node))
    timings.predicted = static_cast<std::int64_t>(attempt->ticket.predicted_us);
  note_pull(sent, node, executed);
  note_times(step, timings, flight.request->trace());
  plans_.add(sent.name, tokens.total, tokens.reused);
  if (is_traced(flight))
    log_step(step, flight, "request_answered",
             {{"node", node},
              {"plan", std::string(sent.name)},
              {"tokens", tokens.total},
              {"reused", tokens.reused},
              {"us", timings.total}});
  if (const Policy* policy = flight.request->policy())
    step.effects.count((*policy)->reuses ? find_plan(sent.name)->metric : Metric::plans_recompute);
  step.effects.send(flight.origin.from, flight.request->reply(std::move(result)));
  flights_.close(step, flight);
}

// Measures pull costs only from answers whose pulled blocks were used.
void Answers::note_pull(const Candidate& sent, NodeId node, const Executed& executed) {
  if (!config_.measures_pulls || executed.pull_us <= 0) return;
  placement::Work work;
  double pulled = 0;
  for (std::size_t i = 0; i < sent.blocks.size() && i < executed.reused.size(); ++i) {
    if (sent.blocks[i].at == 0 || executed.reused[i] == 0) continue;
    const auto tokens = static_cast<double>(sent.plan.segments[i].tokens.size());
    work += config_.costs.computed(tokens, 0);
    pulled += tokens;
  }
  const placement::Pace pace = config_.block_pace.known() ? config_.block_pace : workers_.pace(node);
  pull_cost_.note(pace.us(work), static_cast<double>(executed.pull_us), pulled);
}

void Answers::note_times(Step step, const Timings& timings, const TraceContext& trace) {
  times_.add(step.now, timings);
  const std::pair<Metric, std::int64_t> stages[] = {
      {Metric::stage_features, timings.features}, {Metric::stage_lookup, timings.lookup},
      {Metric::stage_turn, timings.turn},         {Metric::stage_blocks, timings.blocks},
      {Metric::stage_pull, timings.pull},         {Metric::stage_queue, timings.queue},
      {Metric::stage_compute, timings.compute}};
  for (const auto& [metric, us] : stages)
    if (us > 0) step.effects.count(metric, static_cast<double>(us) * 1e-6, trace);
}

}  // namespace troupe::router
