// Writes the fields of a router's status.
#include "router/router_status.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "router/served_kinds.h"

namespace troupe::router {
namespace {

constexpr std::size_t tenants_shown = 8, workers_shown = 64;

void add(StatusReply& reply, const char* name, std::string value) {
  reply.fields.push_back({name, std::move(value)});
}
void add(StatusReply& reply, const char* name, std::uint64_t value) {
  add(reply, name, std::to_string(value));
}

std::string weight_text(double weight) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", weight);
  return text;
}

void report_versions(const RouterStatus& router, StatusReply& reply) {
  const Versions& served = router.versions.versions();
  const std::string& catalog = router.planning.catalog_version();
  add(reply, "model_version", served.model_version);
  add(reply, "model_serves", std::string(served_kinds(router.form)));
  add(reply, "catalog_version", catalog.empty() ? served.catalog_version : catalog);
  add(reply, "next_model", served.next_model);
  if (served.is_shared())
    add(reply, "next_share", weight_text(served.next_share / double{Versions::all_users}));
  add(reply, "next_catalog", served.next_catalog);
  add(reply, "versions_epoch", served.epoch);
}

// Adds a field for each reason why the router serves worse than it should, though it may be ready.
void report_degraded(const RouterStatus& router, StatusReply& reply) {
  const auto degraded = [&](const std::string& what, const std::string& why) {
    if (!why.empty()) add(reply, "degraded", what + why);
  };
  degraded("requests are answered with profiles and items as known last: ",
           router.availability.stale_features());
  degraded("writes of profiles and items fail: ", router.stored_data.write_fault());
  degraded(std::string(router.versions.unread()) + " cannot be read: ", router.versions.away());
  degraded("", router.lost_workers.describe());
}

void report_tenants(const Tenants& tenants, StatusReply& reply) {
  for (const Tenants::Tenant* tenant : tenants.busiest(tenants_shown))
    add(reply, "tenant",
        "\"" + tenant->name + "\": " + std::to_string(tenant->requests) + " requests, " +
            std::to_string(tenant->waiting) + " waiting with " +
            std::to_string(static_cast<std::int64_t>(tenant->work_us / 1000)) + " ms of work, weight " +
            weight_text(tenant->weight));
}

void report_requests(const RouterStatus& router, StatusReply& reply) {
  add(reply, "policy", router.policy.name());
  add(reply, "requests_in_flight", router.flights.size());
  add(reply, "requests_waiting", router.queues.waiting());
  report_tenants(router.tenants, reply);
  add(reply, "writes_in_flight", router.stored_data.writes());
  add(reply, "reads_in_flight", router.stored_data.reads());
  add(reply, "requests_answered", router.flights.answered());
  add(reply, "requests_refused", router.outcomes.refused());
  add(reply, "plans_sent", router.attempts.sent());
  add(reply, "retries", router.attempts.retries());
  add(reply, "pull_share", std::to_string(router.pull_cost.share()));
  add(reply, "suspects", router.attempts.suspects());
  const bool drained = router.flights.size() == 0 && router.stored_data.writes() == 0 &&
                       router.stored_data.reads() == 0 && !router.is_reloading;
  if (router.availability.draining()) add(reply, "drained", drained ? "yes" : "no");
}

// Placement of items on workers, and Algorithm 1's decision if it decides.
void report_placement(Instant now, const RouterStatus& router, StatusReply& reply) {
  const Precompute& precompute = router.precompute;
  add(reply, "placement", precompute.state(now) == "off" ? "none" : router.placement);
  add(reply, "items_hot", precompute.items_hot());
  if (precompute.is_planned()) add(reply, "hot_share", weight_text(precompute.hot_share()));
  const ReplicationDecision* decision = precompute.replication();
  if (!decision) return;
  add(reply, "remote_share_max", weight_text(std::min(1.0, decision->ratio_max)));
  add(reply, "link_bytes_per_s",
      static_cast<std::uint64_t>(decision->tokens_per_s * std::max(1.0, router.token_bytes)));
  add(reply, "link_speed", decision->is_measured ? "measured" : "assumed");
}

void report_precompute(Instant now, const Precompute& precompute, StatusReply& reply) {
  add(reply, "precompute", std::string(precompute.state(now)));
  add(reply, "precompute_at_rest", precompute.is_idle() ? "yes" : "no");
  add(reply, "items_precomputed", precompute.items_precomputed());
  add(reply, "items_given_up", precompute.items_given_up());
}

std::string list_text(const std::vector<NodeId>& nodes) {
  std::string text;
  for (const NodeId node : nodes) text += (text.empty() ? "" : " ") + std::to_string(node);
  return text;
}

// Reports which workers leave, and what is still to be done before their item blocks are elsewhere.
void report_migration(const RouterStatus& router, StatusReply& reply) {
  const Precompute::MigrationProgress migration = router.precompute.migration();
  add(reply, "handed_on", migration.is_done ? "yes" : "no");
  std::vector<NodeId> leaving = router.members.workers();
  std::erase_if(leaving, [&](NodeId node) { return !router.members.is_leaving(node); });
  if (!leaving.empty()) add(reply, "leaving_workers", list_text(leaving));
  if (migration.is_done) return;
  add(reply, "item_blocks_to_copy", migration.blocks);
  add(reply, "items_looked_up", migration.items);
  if (!migration.awaited.empty()) add(reply, "awaited_workers", list_text(migration.awaited));
}

void report_verification(const AnswerVerifier& verifier, StatusReply& reply) {
  if (!verifier.is_on()) return;
  add(reply, "answers_verified", verifier.equal() + verifier.different() + verifier.unstable());
  add(reply, "answers_different", verifier.different());
  add(reply, "answers_unstable", verifier.unstable());
  add(reply, "verifications_dropped", verifier.dropped());
  add(reply, "verifications_waiting", verifier.pending() + verifier.running());
}

void report_records(const Replays& replays, StatusReply& reply) {
  if (!replays.is_on()) return;
  add(reply, "replay_records", replays.records());
  add(reply, "replay_bytes", replays.bytes());
  add(reply, "replay_records_lost", replays.lost());
}

// Lists at most `workers_shown` workers; those with a problem come first.
void report_workers(Instant now, const WorkerTable& workers, StatusReply& reply) {
  struct WorkerLine {
    bool well = true;
    std::string text;
  };
  std::vector<WorkerLine> reported;
  for (const NodeId node : workers.nodes()) {
    const bool alive = workers.alive(now, node), slow = workers.slow(node);
    char slowness[32];
    std::snprintf(slowness, sizeof slowness, "%.2f", workers.slowness(node));
    reported.push_back(
        {alive && !slow, std::to_string(node) + ": " +
                             (!alive ? "lost"
                              : slow ? "slow"
                                     : "alive") +
                             ", heard " + std::to_string(workers.silent_for(now, node).us / 1000) +
                             " ms ago, takes " + slowness + " of what was predicted, " +
                             std::to_string(std::lround(workers.slots(node))) + " lanes, " +
                             std::to_string(std::llround(std::max(0.0, workers.wait_us(now, node)))) +
                             " us of work ahead"});
  }
  std::ranges::stable_partition(reported, [](const WorkerLine& worker) { return !worker.well; });
  reported.resize(std::min(reported.size(), workers_shown));
  for (WorkerLine& worker : reported) add(reply, "worker", std::move(worker.text));
}

void report_recent(Instant now, const Answers& answers, StatusReply& reply) {
  for (const auto& [name, plan] : answers.plans().plans())
    add(reply, "plan",
        name + ": " + std::to_string(plan.requests) + " requests, " + std::to_string(plan.tokens) +
            " tokens, " + std::to_string(plan.reused) + " reused");
  for (const RecentTimes::Row& row : answers.times().rows(now))
    add(reply, "stage",
        std::string(row.stage) + ": p50 " + std::to_string(row.p50_us) + " us, p99 " +
            std::to_string(row.p99_us) + " us, " + std::to_string(row.requests) + " in the last minute");
}

}  // namespace

StatusReply RouterStatus::reply(Instant now, RequestId id) const {
  const std::string reason = availability.not_ready_reason(now);
  StatusReply reply{id, node, Role::router, reason.empty(), {}};
  if (!reason.empty()) add(reply, "not_ready", reason);
  report_degraded(*this, reply);
  report_versions(*this, reply);
  report_requests(*this, reply);
  if (has_members) {
    add(reply, "members_epoch", members.epoch());
    report_migration(*this, reply);
  }
  report_precompute(now, precompute, reply);
  report_placement(now, *this, reply);
  report_verification(verifier, reply);
  report_records(replays, reply);
  report_workers(now, workers, reply);
  report_recent(now, answers, reply);
  return reply;
}

}  // namespace troupe::router
