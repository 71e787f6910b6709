// Judges how routers send, resend and retry requests, from the messages alone. It reports too many
// attempts and needless ones.
#include "sim/cluster/attempts.h"

#include <algorithm>
#include <cmath>

#include "runtime/coordination/members.h"
#include "sim/base/random.h"
#include "sim/ports/compute_port.h"

namespace troupe::sim {
namespace {

constexpr std::size_t requests_max = 20'000;  // per router; more than are ever in flight
constexpr std::size_t paid_max = 2, sends_max = 4;
constexpr double deadline_stretch = 1.2;           // for a router with a slow clock
constexpr Duration verification_grace{1'500'000};  // after its budget, until a router gives it up

bool costs_nothing(const Refusal& refusal) {
  return refusal.kind == RefusalKind::unavailable &&
         (refusal.code == "draining" || refusal.code == "wrong_model");
}

bool is_sound(const Executed& executed) {
  return std::ranges::all_of(executed.readouts,
                             [](const ScoreRow& row) {
                               return std::ranges::all_of(row.scores,
                                                          [](double score) { return std::isfinite(score); });
                             }) &&
         std::ranges::all_of(executed.beams,
                             [](const Beam& beam) { return std::isfinite(beam.log_probability); });
}

}  // namespace

Content content_of(std::span<const Token> user_tokens, std::span<const Token> rows) {
  return mix(hash_of(user_tokens), hash_of(rows));
}

// The rows of a plan that reads each candidate behind itself are those of all readouts together.
Content content_of(const Execute& plan) {
  const std::vector<Readout>& readouts = plan.plan.readouts;
  std::vector<Token> rows;
  if (!readouts.empty()) rows = readouts.front().rows;
  if (std::ranges::any_of(readouts, [&](const Readout& readout) { return readout.rows != rows; })) {
    rows.clear();
    for (const Readout& readout : readouts) rows.insert(rows.end(), readout.rows.begin(), readout.rows.end());
  }
  return content_of(user_tokens(plan.plan), rows);
}

const Attempts::Router& Attempts::find(NodeId router) const {
  static const Router none;
  const auto at = routers_.find(router);
  return at != routers_.end() ? at->second : none;
}

// ---- sent messages ----

void Attempts::on_send(Instant now, Address from, Address to, const Message& message) {
  const auto* plan = std::get_if<Execute>(&message);
  if (from.role != Role::router || !plan) return;
  if (plan->priority == Priority::serving)
    on_plan(now, from.node, to.node, *plan);
  else if (!plan->plan.readouts.empty() || plan->plan.search.width > 0)
    on_verification(now, from.node, to.node, *plan);
}

// An answer is computed again. It is no attempt of a request, but a worker that is lost with it is a loss of
// its content.
void Attempts::on_verification(Instant now, NodeId router, NodeId node, const Execute& plan) {
  Router& seen = routers_[router];
  const auto budget = static_cast<std::int64_t>(static_cast<double>(plan.budget_us) * deadline_stretch);
  const Instant deadline = now + Duration{budget + verification_grace.us};
  seen.requests[plan.id].attempts.push_back({node, content_of(plan), now, deadline, deadline, plan.alone});
  if (seen.requests.size() > requests_max) seen.requests.erase(seen.requests.begin());
}

void Attempts::on_plan(Instant now, NodeId router, NodeId node, const Execute& plan) {
  Router& seen = routers_[router];
  Request& request = seen.requests[plan.id];
  const auto budget = static_cast<std::int64_t>(static_cast<double>(plan.budget_us) * deadline_stretch);
  judge_resend(now, router, plan.id, request);
  const auto half = static_cast<std::int64_t>(static_cast<double>(plan.budget_us) / 2 / deadline_stretch);
  request.attempts.push_back(
      {node, content_of(plan), now, now + Duration{half}, now + Duration{budget}, plan.alone});
  ++seen.sent;
  const std::size_t sends = request.attempts.size(), free = request.free.size();
  if (sends > std::min(paid_max + free, sends_max))
    violations_.report(10,
                       "router@" + std::to_string(router) + " sends request " + std::to_string(plan.id) +
                           " for the " + std::to_string(sends) + "th time, and " + std::to_string(free) +
                           " workers refused it at no cost",
                       now);
  if (sends > 1 + free + request.retries) ++request.retries, ++seen.retries;
  if (seen.requests.size() > requests_max) seen.requests.erase(seen.requests.begin());
}

bool Attempts::has_heard_of(const Router& router, NodeId node) {
  const auto at = router.workers.find(node);
  return at != router.workers.end() && at->second.incarnation != 0;
}

// A second attempt is in vain while the first one runs and is not late. If a worker never sent a heartbeat,
// only the router knows when it considered the worker lost.
void Attempts::judge_resend(Instant now, NodeId router, RequestId id, const Request& request) {
  const Router& seen = routers_[router];
  for (const Attempt& attempt : request.attempts)
    if (attempt.open && now < attempt.late && has_heard_of(seen, attempt.node) &&
        !silent_since(now, seen, attempt.node))
      violations_.report(20,
                         "router@" + std::to_string(router) + " sends request " + std::to_string(id) +
                             " again while node " + std::to_string(attempt.node) +
                             " still runs it and is not late",
                         now);
}

// ---- received messages ----

void Attempts::on_event(Instant now, Address to, const Event& event) {
  if (to.role != Role::router) return;
  if (const auto* fired = std::get_if<TimerFired>(&event)) {
    if (fired->timer == start_timer) routers_[to.node] = {};
  } else if (const auto* gone = std::get_if<PeerLost>(&event)) {
    lose(silent_since(now, routers_[to.node], gone->node).value_or(now), to.node, gone->node);
  } else if (const auto* received = std::get_if<Received>(&event)) {
    on_message(now, to, received->from, received->message);
  } else if (const auto* done = std::get_if<JobDone>(&event)) {
    if (const auto* read = std::get_if<CoordinationReply>(&done->result)) on_read(now, to.node, read->value);
  }
}

// A router that reads this member list loses the workers that have left for good.
void Attempts::on_read(Instant now, NodeId router, const std::string& value) {
  const auto members = parse_members(value);
  if (!std::holds_alternative<ClusterMembers>(members)) return;  // of another key
  for (const NodeId node : std::get<ClusterMembers>(members).left) lose(now, router, node);
}

void Attempts::on_message(Instant now, Address to, Address sender, const Message& message) {
  if (to.role != Role::router) return;
  const NodeId router = to.node, from = sender.node;
  if (std::holds_alternative<RankRequest>(message) || std::holds_alternative<ScoreRequest>(message) ||
      std::holds_alternative<GenerateRequest>(message) || std::holds_alternative<CompleteRequest>(message)) {
    ++routers_[router].received;
  } else if (sender.role != Role::inference_worker) {
    return;
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    on_heartbeat(now, router, from, *heartbeat);
  } else if (const auto* executed = std::get_if<Executed>(&message)) {
    on_answer(now, router, from, executed->id, is_sound(*executed));
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    const auto at = routers_[router].requests.find(refused->id);
    if (at != routers_[router].requests.end() && costs_nothing(refused->refusal))
      at->second.free.insert(from);
    on_answer(now, router, from, refused->id, false);
  }
}

void Attempts::on_heartbeat(Instant now, NodeId router, NodeId node, const Heartbeat& heartbeat) {
  Worker& worker = routers_[router].workers[node];
  if (heartbeat.incarnation < worker.incarnation) return;
  const bool numbered = heartbeat.sequence != 0;
  if (numbered && heartbeat.incarnation == worker.incarnation && heartbeat.sequence <= worker.sequence)
    return;  // overtaken: it says nothing about the present
  const bool restarted = worker.incarnation != 0 && heartbeat.incarnation > worker.incarnation;
  const auto silent = silent_since(now, routers_[router], node);
  if (restarted || silent) lose(silent.value_or(now), router, node);
  worker = {now, heartbeat.incarnation, heartbeat.sequence};
}

// Returns since when the worker counts as lost: a router waits for three missing heartbeats, by its own
// clock and at its next beat. nullopt = not lost yet.
std::optional<Instant> Attempts::silent_since(Instant now, const Router& router, NodeId node) const {
  const auto at = router.workers.find(node);
  if (at == router.workers.end() || at->second.incarnation == 0) return {};
  const Instant since = at->second.heard + Duration{heartbeat_.us * 5 / 2};
  return now > since ? std::optional(since) : std::nullopt;
}

void Attempts::on_answer(Instant now, NodeId router, NodeId node, RequestId id, bool ends_request) {
  Router& seen = routers_[router];
  const auto at = seen.requests.find(id);
  if (at == seen.requests.end()) return;
  for (Attempt& attempt : at->second.attempts) {
    if (!attempt.open || !(ends_request || attempt.node == node)) continue;
    if (const auto since = silent_since(now, seen, attempt.node)) note_loss(*since, router, attempt);
    attempt.open = false;
  }
}

// ---- losses ----

void Attempts::lose(Instant at, NodeId router, NodeId node) {
  for (auto& [id, request] : routers_[router].requests)
    for (Attempt& attempt : request.attempts)
      if (attempt.open && attempt.node == node) note_loss(at, router, attempt);
}

void Attempts::note_loss(Instant at, NodeId router, Attempt& attempt) {
  attempt.open = false;
  if (at > attempt.deadline) return;
  Losses& losses = losses_[attempt.content];
  const std::array<std::uint64_t, 2> here{static_cast<std::uint64_t>(at.us), mix(router, attempt.node)};
  losses.alone |= attempt.alone;
  losses.count += losses.count == 0 || losses.seen != here;
  losses.seen = here;
}

bool Attempts::lost_twice(Instant now, const std::set<Content>& contents) {
  for (auto& [router, seen] : routers_)
    for (auto& [id, request] : seen.requests)
      for (Attempt& attempt : request.attempts)
        if (contents.contains(attempt.content) && attempt.open)
          if (const auto since = silent_since(now, seen, attempt.node)) note_loss(*since, router, attempt);
  std::uint32_t count = 0;
  bool alone = false;
  for (const Content content : contents) {
    const auto at = losses_.find(content);
    if (at == losses_.end()) continue;
    count += at->second.count;
    alone = alone || at->second.alone;
  }
  return count >= 2 && alone;
}

}  // namespace troupe::sim
