// Fills the message that carries a plan to a worker.
#include "router/flights/plan_sender.h"

#include <algorithm>
#include <utility>

#include "router/flights/timers.h"

namespace troupe::router {

// The message has a copy of the plan, because the flight may send its plan again and checks the
// answer against it.
void PlanSender::send(Step step, Flight& flight, const WorkerTable::Option& option, bool suspect) {
  name_holders(step.now, flight, option.node);
  const Candidate& candidate = flight.plans.front().candidate;
  const Duration left = flight.origin.deadline - step.now;
  Execute execute{.id = flight.serial,
                  .budget_us = left.us,
                  .plan = candidate.plan,
                  .blocks = candidate.blocks,
                  .retention = retention_of(flight),
                  .model_version = flight.pinned.model_version,
                  .catalog_version = flight.request->catalog_version(),
                  .alone = suspect || flight.failed_on_device,
                  .trace = flight.request->trace()};
  note_home(step.now, flight, option.node, execute.retention);
  const Instant late_at = step.now + Duration{left.us / 2};
  flight.attempts.push_back({workers_.send(step.now, option), late_at, execute.alone, suspect});
  ++sent_;
  step.effects.count(Metric::tenant_work, workers_.pace(option.node).us(option.work) * 1e-6,
                     tenants_[flight.tenant].name);
  step.effects.set_timer(timer_of(flight.serial, TimerKind::late), late_at);
  if (is_traced(flight))
    log_step(step, flight, "plan_sent", {{"node", option.node}, {"attempt", flight.attempts.size()}});
  step.effects.send({option.node, Role::inference_worker}, std::move(execute));
}

// Names, for each block that the node lacks, another node that holds it.
void PlanSender::name_holders(Instant now, Flight& flight, NodeId node) const {
  const bool pulls = flight.held && pull_cost_.share() < 1;  // otherwise computing is faster
  const auto other_holder = [&](std::span<const NodeId> holders) -> NodeId {
    if (std::find(holders.begin(), holders.end(), node) != holders.end()) return 0;
    const auto at = std::find_if(holders.begin(), holders.end(), [&](NodeId holder) {
      return workers_.alive(now, holder) || !workers_.has(holder);
    });
    return at != holders.end() ? *at : 0;
  };
  std::size_t asked = flight.plans.front().cost.first();
  for (SegmentBlock& block : flight.plans.front().candidate.blocks)
    if (is_asked_for(block)) block.at = pulls ? other_holder(flight.held->holders(asked++)) : 0;
}

Retention PlanSender::retention_of(const Flight& flight) const {
  Retention retention;
  const Policy* policy = flight.request->policy();
  if (!policy) return retention;
  if (flight.held && keeps_user(flight.plans.front().candidate) &&
      (*policy)->displacement == Displacement::coldest_users)
    retention.evict_first = flight.held->found().coldest;
  retention.keep_hotter = config_.shared_areas || (*policy)->displacement == Displacement::hotter;
  if (retention.keep_hotter) retention.copy_worth = pull_cost_.share();
  return retention;
}

// Plans to the home carry the recorded uses.
void PlanSender::note_home(Instant now, Flight& flight, NodeId node, Retention& retention) {
  using CountedAt = Flight::CountedAt;
  const NodeId home = flight.home_or(node);
  const PlanOption& sent = flight.plans.front();
  if (keeps_user(sent.candidate)) {
    retention.remote_home = home != node || flight.counted == CountedAt::elsewhere;
    if (home == node && flight.counted == CountedAt::no) flight.counted = CountedAt::at_home;
    if (home != node && flight.counted == CountedAt::no && config_.reports_uses_elsewhere &&
        workers_.alive(now, home)) {
      elsewhere_.note(home, sent.cost.users_blocks(sent.candidate, workers_.pace(home)));
      flight.counted = CountedAt::elsewhere;
    }
  }
  // Uses are reported only with a plan whose worker asks for blocks, because it reports them
  // together.
  if (std::ranges::any_of(sent.candidate.blocks,
                          [](const SegmentBlock& block) { return block.name.has_value(); }))
    retention.elsewhere = elsewhere_.take(node);
}

}  // namespace troupe::router
