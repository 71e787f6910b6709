// Compares what a flight would cost on each worker in question.
#include "router/flights/worker_choice.h"

#include <algorithm>
#include <limits>

#include "kernels/base/hash.h"
#include "router/fleet/row_profile.h"
#include "router/request/planner.h"

namespace troupe::router {
namespace {

constexpr std::size_t users_remembered = 65'536;  // users for whom Algorithm 1 remembers the last worker
// Time after which a worker that refused prototypes is offered them again.
constexpr Duration wrong_prototypes_memory{60'000'000};

bool contains(std::span<const NodeId> nodes, NodeId node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

void add_holders(const Flight& flight, std::vector<NodeId>& nodes) {
  if (!flight.held) return;
  for (const PlanOption& plan : flight.plans) {
    const NodeId holder = flight.held->best_holder(plan.cost.first(), plan.cost.asked());
    if (holder != 0 && !contains(nodes, holder)) nodes.push_back(holder);
  }
}

}  // namespace

WorkerChoice::WorkerChoice(Routing::By by, WorkerTable& workers, const WorkerQueues& queues)
    : by_(by), workers_(workers), queues_(queues), last_(by == Routing::By::joint ? users_remembered : 0) {}

std::optional<WorkerTable::Option> WorkerChoice::choose(Instant now, const Flight& flight,
                                                        std::span<const NodeId> excluded) {
  const bool fixed = flight.planned || flight.plans.size() == 1;
  if (fixed && needs_prototypes(flight.plans.front()) && !wrong_prototypes_.empty()) {
    std::vector<NodeId> others(excluded.begin(), excluded.end());
    for (const auto& [node, refused] : wrong_prototypes_)
      if (has_wrong_prototypes(now, node)) others.push_back(node);
    if (const auto option = choose_any(now, flight, others)) return option;
  }
  return choose_any(now, flight, excluded);
}

std::optional<WorkerTable::Option> WorkerChoice::choose_any(Instant now, const Flight& flight,
                                                            std::span<const NodeId> excluded) {
  if (const auto option = choose_home(now, flight, excluded)) return option;
  std::vector<NodeId> nodes = flight.workers;
  add_holders(flight, nodes);
  if (const NodeId last = last_worker(flight); last != 0 && !contains(nodes, last)) nodes.push_back(last);
  if (const auto option = choose_among(now, flight, nodes, excluded)) return option;
  nodes = workers_.candidates(now, {flight.fingerprint, spread(flight.serial + flight.attempts.size()),
                                    flight.pinned.model_version, excluded});
  add_holders(flight, nodes);
  return choose_among(now, flight, nodes, excluded);
}

// Returns the home, unless it is slow or would finish too late. Another worker also wins if it is
// faster by more than the time to compute the user's block, which is what the home saves.
std::optional<WorkerTable::Option> WorkerChoice::choose_home(Instant now, const Flight& flight,
                                                             std::span<const NodeId> excluded) const {
  const Policy* policy = flight.request->policy();
  if (!policy || !(*policy)->at_home || !flight.planned || flight.workers.empty()) return std::nullopt;
  if (!keeps_user(flight.plans.front().candidate)) return std::nullopt;
  const auto may_go = [&](NodeId node) {
    return !contains(excluded, node) && workers_.usable(now, node, flight.pinned.model_version) &&
           !workers_.avoided(now, node);
  };
  const auto done_us = [&](const WorkerTable::Option& option) {
    return workers_.predicted_us(now, option.node, option.work, option.passes_us);
  };
  const WorkerTable::Option home = option_at(now, flight.workers.front(), flight);
  if (!may_go(home.node) || home.work.operations >= flight.too_many_operations) return std::nullopt;
  const PlanCost& cost = flight.plans.front().cost;
  const placement::Pace pace = workers_.pace(home.node);
  double latest_us = static_cast<double>((flight.origin.deadline - now).us);
  for (const NodeId node : flight.workers)
    if (node != home.node && may_go(node))
      latest_us = std::min(latest_us, done_us(option_at(now, node, flight)) + pace.us(cost.nothing_held()) -
                                          pace.us(cost.all_held()));
  if (done_us(home) > latest_us) return std::nullopt;
  return home;
}

std::optional<WorkerTable::Option> WorkerChoice::choose_among(Instant now, const Flight& flight,
                                                              std::span<const NodeId> nodes,
                                                              std::span<const NodeId> excluded) {
  std::vector<WorkerTable::Option> options;
  options.reserve(nodes.size());
  for (const NodeId node : nodes) {
    if (contains(excluded, node)) continue;
    const WorkerTable::Option option = option_at(now, node, flight);
    if (option.work.operations < flight.too_many_operations) options.push_back(option);
  }
  return workers_.choose(now, options, flight.pinned.model_version, flight.attempts.empty());
}

// Returns the plan that the planner would use at that node.
std::size_t WorkerChoice::plan_at(Instant now, NodeId node, const Flight& flight) const {
  if (flight.planned || flight.plans.size() == 1) return 0;
  const placement::Pace pace = workers_.pace(node);
  const bool no_prototypes = has_wrong_prototypes(now, node);
  constexpr double never = std::numeric_limits<double>::infinity();
  const auto kept = [&](const PlanCost& cost, SegmentKind kind) -> KeptBlocks {
    const double uses = cost.uses(kind, *flight.held);
    if (uses <= 0) return {};
    return {uses, pace.us(cost.with_held(kind, node, *flight.held))};
  };
  std::vector<PlanWeight> weights;
  weights.reserve(flight.plans.size());
  for (const PlanOption& plan : flight.plans)
    if (no_prototypes && needs_prototypes(plan))
      weights.push_back({never});
    else
      weights.push_back({pace.us(plan.cost.at(node, *flight.held)), kept(plan.cost, SegmentKind::user),
                         kept(plan.cost, SegmentKind::item)});
  return weigh_plans(weights);
}

WorkerTable::Option WorkerChoice::option_at(Instant now, NodeId node, const Flight& flight) const {
  const std::size_t plan = plan_at(now, node, flight);
  const PlanCost& cost = flight.plans[plan].cost;
  WorkerTable::Option option{.node = node,
                             .work = flight.work_at(node, plan),
                             .plan = plan,
                             .passes_us = queues_.passes_us(node, flight.tenant),
                             .whole = cost.nothing_held()};
  if (flight.held && by_ != Routing::By::earliest) option.hit = cost.hit(node, *flight.held);
  const Heartbeat* heard = is_joint() ? workers_.last_heard(node) : nullptr;
  if (!heard) return option;
  const Plan& wanted = flight.plans[plan].candidate.plan;
  option.kept = cost.all_held();
  option.rows_us = static_cast<double>(rows_of(wanted)) * heard->us_per_row;
  option.rows_found = rows_found(wanted, *heard);
  option.last = last_worker(flight) == node;
  return option;
}

NodeId WorkerChoice::last_worker(const Flight& flight) const { return last_.of(flight.home); }

void WorkerChoice::note_sent(const Flight& flight, NodeId node) { last_.note(flight.home, node); }

void WorkerChoice::note_wrong_prototypes(Instant now, const Ticket& refused) {
  wrong_prototypes_[refused.node] = {refused.process, now + wrong_prototypes_memory};
}

bool WorkerChoice::has_wrong_prototypes(Instant now, NodeId node) const {
  const auto at = wrong_prototypes_.find(node);
  if (at == wrong_prototypes_.end() || now >= at->second.until) return false;
  const Heartbeat* heard = workers_.last_heard(node);
  return heard && heard->incarnation == at->second.process;
}

}  // namespace troupe::router
