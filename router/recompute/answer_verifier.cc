// Chooses answers to verify, computes them again on idle workers, and reports those that differ.
#include "router/recompute/answer_verifier.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "kernels/base/hash.h"
#include "router/flights/answer_check.h"

namespace troupe::router {
namespace {

constexpr std::uint32_t tries_max = 3;
constexpr Duration grace{1'000'000};  // after a recomputation's budget, for its refusal to arrive

// Returns a number in [0, 1) that looks random and depends on the serial alone.
double draw_of(Flight::Serial serial) { return static_cast<double>(spread(serial) >> 11) * 0x1p-53; }

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return text;
}

// Returns true if no other try may follow: the versions are gone, or a device failed, which the plan
// may have caused.
bool is_final(const Refusal& refusal) {
  return refusal.code == "wrong_model" || refusal.code == "wrong_catalog" ||
         refusal.code.starts_with("device_");
}

// Fields that name an answer, for log lines.
std::vector<LogField> fields_of(const AnsweredPlan& answered) {
  std::vector<LogField> fields{{"request_id", answered.request_id}};
  if (answered.trace.is_there()) fields.push_back({"trace_id", trace_id(answered.trace)});
  fields.insert(fields.end(), {{"tenant", answered.tenant},
                               {"kind", std::string(answered.kind)},
                               {"plan", std::string(answered.plan_name)},
                               {"node", answered.node}});
  return fields;
}

}  // namespace

// ---- answers ----

bool AnswerVerifier::is_chosen(const Flight& flight) const {
  return config_.share > 0 && draw_of(flight.serial) < config_.share &&
         flight.plans.front().candidate.plan.repair.reused_spans.empty();
}

void AnswerVerifier::note(Step step, const Flight& flight, NodeId node, const Executed& executed) {
  if (!is_chosen(flight)) return;
  if (pending_.size() >= config_.pending_max) return drop(step);
  pending_.push_back({.answered = answered_plan(flight, node, executed), .fingerprint = flight.fingerprint});
}

void AnswerVerifier::drop(Step step) {
  ++dropped_;
  step.effects.count(Metric::verified_dropped);
}

// ---- when and where ----

// A request whose plan is not sent yet needs a worker soon, perhaps this one. An attempt that is late
// may still be computed although its flight has ended: the heartbeat tells.
bool AnswerVerifier::is_idle_worker(Instant now, NodeId node, std::string_view model) const {
  if (!workers_.usable(now, node, model) || workers_.avoided(now, node)) return false;
  const Heartbeat& last = *workers_.last_heard(node);
  if (last.incarnation == 0 || last.plans_waiting > 0 || last.slots_busy >= std::max(1U, last.slots))
    return false;
  return std::ranges::none_of(flights_.all(), [node](const auto& entry) {
    const Flight& flight = entry.second;
    const bool waits = flight.queued ? flight.queued->option.node == node : flight.attempts.empty();
    return waits || std::ranges::any_of(flight.attempts, [node](const Attempt& attempt) {
             return attempt.open() && attempt.ticket.node == node;
           });
  });
}

// Prefers the worker that answered, so that only the cache differs. The second recomputation
// prefers another worker than the first. Returns 0 if no worker is idle.
NodeId AnswerVerifier::choose_worker(Instant now, const Verification& verification) const {
  const AnsweredPlan& answered = verification.answered;
  NodeId chosen = 0;
  for (const NodeId node : workers_.nodes()) {
    if (!is_idle_worker(now, node, answered.model_version)) continue;
    const bool preferred = verification.first ? node != verification.first_node : node == answered.node;
    if (preferred) return node;
    if (chosen == 0) chosen = node;
  }
  return chosen;
}

void AnswerVerifier::on_beat(Step step) {
  if (std::exchange(admitted_, flights_.admitted()) != flights_.admitted()) last_request_ = step.now;
  if (running_ && step.now >= running_->deadline)
    try_again(step, std::move(end_run(step).verification), false);
  work(step);
}

// A worker that is silent for a while may still have the model.
bool AnswerVerifier::is_model_gone(std::string_view model) const {
  return std::ranges::all_of(workers_.nodes(), [&](NodeId node) { return workers_.lacks(node, model); });
}

// An answer that differed is judged at once.
bool AnswerVerifier::pauses(Instant now) const {
  return last_request_ && now < next_at_ && now < *last_request_ + config_.quiet_after &&
         !pending_.front().first;
}

// Leaves out answers of a model that no worker has any more, and suspects.
void AnswerVerifier::work(Step step) {
  while (!running_ && !pending_.empty() &&
         (is_model_gone(pending_.front().answered.model_version) ||
          attempts_.is_suspect(step.now, pending_.front().fingerprint))) {
    pending_.pop_front();
    drop(step);
  }
  if (running_ || pending_.empty() || pauses(step.now)) return;
  const NodeId node = choose_worker(step.now, pending_.front());
  if (node == 0) return;
  const RequestId id = step.next_id++;
  Execute execute = recompute(pending_.front().answered, id, config_.budget);
  running_ = Running{.verification = std::move(pending_.front()),
                     .id = id,
                     .node = node,
                     .process = workers_.last_heard(node)->incarnation,
                     .sent = step.now,
                     .deadline = step.now + config_.budget + grace};
  pending_.pop_front();
  step.effects.send({node, Role::inference_worker}, std::move(execute));
}

// Ends the running recomputation. The next one has to wait while requests come.
AnswerVerifier::Running AnswerVerifier::end_run(Step step) {
  Running run = *std::exchange(running_, std::nullopt);
  next_at_ = step.now + Duration{(step.now - run.sent).us * config_.pause_factor};
  return run;
}

// ---- ends of a recomputation ----

// Puts the verification first, so that an answer that differs is reported soon.
void AnswerVerifier::try_again(Step step, Verification&& verification, bool is_last) {
  if (is_last || ++verification.tries >= tries_max) return drop(step);
  pending_.push_front(std::move(verification));
  if (pending_.size() <= config_.pending_max) return;
  pending_.pop_back();
  drop(step);
}

bool AnswerVerifier::on_refused(Step step, Address from, const Refused& refused) {
  if (!running_ || running_->id != refused.id) return false;
  if (running_->node != from.node) return true;
  try_again(step, std::move(end_run(step).verification), is_final(refused.refusal));
  return true;
}

// A lost worker ends the verification: it may have died of it, and would do so again.
void AnswerVerifier::lose(Step step, std::span<const NodeId> nodes) {
  if (!running_ || std::ranges::find(nodes, running_->node) == nodes.end()) return;
  const Running run = end_run(step);
  if (run.process != 0)
    attempts_.strike(step, run.verification.fingerprint,
                     {run.node, run.process, workers_.proof_of_life(step.now, run.node)});
  drop(step);
}

bool AnswerVerifier::on_executed(Step step, Address from, const Executed& executed) {
  if (!running_ || running_->id != executed.id) return false;
  if (running_->node != from.node) return true;
  Running run = end_run(step);
  const AnsweredPlan& answered = run.verification.answered;
  if (validate_answer(answered.plan, answered.model_version, executed))
    try_again(step, std::move(run.verification), false);  // the worker's fault, as for any request
  else
    judge(step, std::move(run), executed);
  work(step);
  return true;
}

void AnswerVerifier::judge(Step step, Running&& run, const Executed& executed) {
  Verification& verification = run.verification;
  if (verification.first) return report(step, verification, executed, run.node);
  if (compare(verification.answered, executed, config_.rounding).is_rounding()) {
    ++equal_;
    step.effects.count(Metric::verified_equal);
    return;
  }
  verification.first = executed;
  verification.first_node = run.node;
  verification.tries = 0;
  pending_.push_front(std::move(verification));
  if (pending_.size() <= config_.pending_max) return;
  pending_.pop_back();
  drop(step);
}

void AnswerVerifier::report(Step step, const Verification& verification, const Executed& second,
                            NodeId node) {
  const AnsweredPlan& answered = verification.answered;
  AnsweredPlan first = answered;
  first.rows = verification.first->readouts;
  first.beams = verification.first->beams;
  const Difference unstable = compare(first, second, config_.rounding);
  const bool agree = unstable.is_rounding();
  const Difference difference = agree ? compare(answered, *verification.first, config_.rounding) : unstable;
  std::vector<LogField> fields = fields_of(answered);
  if (agree) {
    fields.push_back({"by", verification.first_node});
  } else {
    fields.push_back({"first", verification.first_node});
    fields.push_back({"second", node});
  }
  fields.insert(fields.end(), {{"model", answered.model_version},
                               {"largest", number_text(difference.largest)},
                               {"bound", number_text(difference.bound)},
                               {"blocks_reused", answered.blocks_reused}});
  ++(agree ? different_ : unstable_);
  step.effects.count(agree ? Metric::verified_different : Metric::verified_unstable);
  step.effects.log(agree ? LogLevel::error : LogLevel::warning,
                   agree ? "answer_differs" : "recomputation_differs", std::move(fields));
}

}  // namespace troupe::router
