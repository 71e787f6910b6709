// Judges the state of the simulated cluster rather than its answers: bounds, fencing of former
// leaders, fairness, and leftovers at the end.
#include "sim/cluster/inspector.h"

#include <algorithm>
#include <limits>

#include "sim/base/quantile.h"

namespace troupe::sim {
namespace {

constexpr std::size_t slow_samples_min = 60;
constexpr std::size_t store_jobs_max = 6;  // loads and pulls; at this number the scrubber may have to wait
// Promise 10: limit on a router's retries, whatever its configuration.
constexpr double retry_share_max = 0.1, retry_burst_max = 50;

}  // namespace

Inspector::Inspector(Cluster& cluster, Clients& clients, Violations& violations)
    : cluster_(cluster),
      clients_(clients),
      violations_(violations),
      attempts_(cluster.scenario().heartbeat, violations),
      costs_(cluster, violations) {
  clients_.set_poison_judge(attempts_);
  cluster_.on_bit_flipped = [this](NodeId node, std::uint64_t generation) {
    flips_.push_back(
        {node, cluster_.host().incarnation(node), generation, cluster_.host().local_time(node), {}});
  };
  // An answer may differ only because bits flipped in memory (promise 2).
  cluster_.on_difference = [this](std::string_view actor, std::string_view event) {
    if (cluster_.struck().empty())
      report(21, std::string(actor) + " reports " + std::string(event) + " although no bit has flipped");
  };
  const bool several = cluster_.scenario().models > 1;
  const auto at_node = [actor_ids = cluster_.actor_ids()](Address address) {
    return Address{address.role == Role::inference_worker ? actor_ids.node_of(address.node) : address.node,
                   address.role};
  };
  cluster_.host().watch_sends([=, this](Instant now, Address from, Address to, const Message& message) {
    attempts_.on_send(now, from, at_node(to), message);
    if (!several) costs_.on_send(from, to, message);
  });
  cluster_.host().watch_events([=, this](Instant now, Address to, const Event& event) {
    const auto* received = std::get_if<Received>(&event);
    if (received)
      attempts_.on_message(now, to, at_node(received->from), received->message);
    else
      attempts_.on_event(now, to, event);
    if (!several) costs_.on_event(to, event);
    if (received && to.role == Role::kv_worker) watch_commands(to, received->message);
  });
}

Duration Inspector::quiet() const {
  const Scenario& s = cluster_.scenario();
  return {2 * s.deadline.us + 15 * s.heartbeat.us + s.read_lease.us * 12 / 10};
}

void Inspector::look() {
  clients_.check_overdue();
  judge_retries();
  judge_flips();
  if (cluster_.scenario().models == 1) costs_.look();
  if (const std::string fault = cluster_.check_bounds(); !fault.empty()) report(10, fault);
  for (const auto& [id, node] : cluster_.nodes())
    for (const auto* router : node.routers())
      if (const std::string fault = router->find_unfairness(); !fault.empty())
        report(14, "router@" + std::to_string(id) + ": " + fault);
}

// Judges by the messages sent; the router's own counts must agree.
void Inspector::judge_retries() {
  for (const auto& [id, node] : cluster_.nodes()) {
    // Not seen yet: the process has just started, or was paused right after its start.
    if (!node.router || node.disturbed == cluster_.now() || cluster_.host().paused(id)) continue;
    const std::uint64_t retries = attempts_.retries(id), sent = attempts_.sent(id);
    const std::uint64_t admitted = std::min(node.router->admitted(), attempts_.received(id));
    const std::string who = "router@" + std::to_string(id);
    if (static_cast<double>(retries) > retry_burst_max + retry_share_max * static_cast<double>(admitted))
      report(10, who + " has retried " + std::to_string(retries) + " times for " + std::to_string(admitted) +
                     " requests");
    if (sent != node.router->attempts() || retries > node.router->retries())
      report(10, who + " has sent " + std::to_string(sent) + " plans, " + std::to_string(retries) +
                     " of them retries, but counts " + std::to_string(node.router->attempts()) + " and " +
                     std::to_string(node.router->retries()));
  }
}

// ---- flipped bits ----

// The bound is one scrubber round, and as much again for its backlog. A node that is paused or whose jobs
// all run cannot look; that time does not count.
void Inspector::judge_flips() {
  const Duration bound{2 * cluster_.scenario().scrub_interval.us + 1'000'000};
  std::erase_if(flips_, [&](Flip& flip) {
    const Node& node = cluster_.node(flip.node);
    const bool lives = node.kv_worker && cluster_.host().incarnation(flip.node) == flip.process;
    if (!lives || is_found(flip.node, flip.generation)) return true;
    const Instant now = cluster_.host().local_time(flip.node);
    const bool can_look = !cluster_.host().paused(flip.node) && now - flip.last < Duration{1'000'000} &&
                          node.kv_worker->loads_running() + node.kv_worker->pulls_running() < store_jobs_max;
    if (can_look) flip.exposed.us += (now - flip.last).us;
    flip.last = now;
    if (flip.exposed <= bound) return false;
    report(2, "a bit of block " + std::to_string(flip.generation) + " of node " + std::to_string(flip.node) +
                  " has flipped and was not found in " + std::to_string(flip.exposed.us) + " us");
    return true;
  });
}

// True if nobody can use the block any more, or the bit flipped back.
bool Inspector::is_found(NodeId id, std::uint64_t generation) const {
  const Node& node = cluster_.node(id);
  const auto block = node.kv_worker->pool().ready_after(generation - 1, 1);
  return block.empty() || block[0]->generation != generation ||
         node.pages->checksum(block[0]->pages) == block[0]->checksum;
}

// ---- authority ----

void Inspector::watch_commands(Address to, const Message& message) {
  const auto* beat = std::get_if<LeaderBeat>(&message);
  const auto* forget = std::get_if<Forget>(&message);
  if (!beat && !forget) return;
  Authority& known = authorities_[{to.node, cluster_.host().incarnation(to.node)}];
  const std::uint64_t token = beat ? beat->token : forget->token;
  const bool may_obey = known.beat && token >= known.highest;
  known.highest = std::max(known.highest, token);
  known.beat = known.beat || beat;
  if (may_obey || beat) return;
  const actors::KvWorkerCore* worker = cluster_.node(to.node).kv_worker;
  std::vector<std::uint64_t> generations;
  for (const BlockName& name : worker->pool().names_of(forget->kind, forget->owner))
    if (const PoolBlock* block = worker->pool().find(name)) generations.push_back(block->generation);
  cluster_.host().at(cluster_.now(), [this, to, generations, kind = forget->kind, owner = forget->owner] {
    const actors::KvWorkerCore* now = cluster_.node(to.node).kv_worker;
    if (!now) return;
    std::set<std::uint64_t> left;
    for (const BlockName& name : now->pool().names_of(kind, owner))
      if (const PoolBlock* block = now->pool().find(name)) left.insert(block->generation);
    for (const std::uint64_t generation : generations)
      if (!left.contains(generation))
        return report(
            5, "kv_worker@" + std::to_string(to.node) + " obeyed a node that does not lead or may not");
  });
}

// ---- end of the run ----

void Inspector::judge_end() {
  clients_.check_overdue();
  if (clients_.open() > 0)
    report(1, std::to_string(clients_.open()) + " requests have no outcome at the end");
  judge_rest();
  judge_index();
  judge_slow_node();
}

void Inspector::judge_rest() {
  // A model that has a share of the users is not pending.
  if (const Versions v = cluster_.versions();
      !v.is_shared() && (!v.next_model.empty() || !v.next_catalog.empty()))
    report(4,
           "model " + v.next_model + " is still pending at the end, with catalog \"" + v.next_catalog + "\"");
  for (const auto& [id, node] : cluster_.nodes()) {
    const auto left = [&, id = id](const char* what, std::size_t count) {
      if (count > 0)
        report(3, std::to_string(count) + " " + what + " of node " + std::to_string(id) +
                      " are left over at the end");
    };
    for (const auto* router : node.routers())
      left("requests", router->in_features() + router->in_lookup() + router->executing());
    if (!node.kv_worker || !node.inference) continue;
    for (const auto* inference : node.inferences()) left("plans", inference->tasks());
    left("blocks being written", node.kv_worker->pending());
    left("waiting requests", node.kv_worker->waiting());
    left("remote reads", node.kv_worker->remote_reads());
    std::size_t pinned = 0;
    for (const PoolBlock* block : node.kv_worker->pool().ready_after(0, 1'000'000)) pinned += block->pins > 0;
    left("pinned blocks", pinned);
  }
}

// The leading cache-meta must know exactly the ready blocks of every worker.
void Inspector::judge_index() {
  const actors::CacheMetaCore* leader = cluster_.leader();
  if (!leader) return report(8, "no cache-meta leads at the end");
  for (const auto& [id, node] : cluster_.nodes()) {
    if (!node.kv_worker) continue;
    const auto blocks = node.kv_worker->pool().ready_after(0, 1'000'000);
    std::size_t known = 0;
    for (const PoolBlock* block : blocks)
      known += leader->index().generation_of(block->name, id) == block->generation;
    if (known == blocks.size() && leader->index().holdings(id) == blocks.size()) continue;
    report(8, "the index knows " + std::to_string(known) + " of the " + std::to_string(blocks.size()) +
                  " blocks of node " + std::to_string(id) + ", and " +
                  std::to_string(leader->index().holdings(id)) + " in all");
  }
}

// Promise 11: ten heartbeats after the fault, latencies are those of a healthy cluster. A failed request
// counts as infinite latency. Routing rules that ignore completion times do not promise this.
void Inspector::judge_slow_node() {
  const Scenario& s = cluster_.scenario();
  if (!s.drill || s.workers < 3 || s.faults.empty() || s.routing.by != router::Routing::By::earliest) return;
  std::vector<float> healthy, slow;
  for (const Fault& fault : s.faults)
    if (fault.kind != FaultKind::slow_node) return;
  const auto second = [](std::int64_t us) { return static_cast<std::size_t>(us / 1'000'000); };
  const auto take = [&](std::vector<float>& into, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to && i < clients_.seconds().size(); ++i) {
      const Second& row = clients_.seconds()[i];
      into.insert(into.end(), row.latency_ms.begin(), row.latency_ms.end());
      into.insert(into.end(), row.failed, std::numeric_limits<float>::infinity());
    }
  };
  const std::int64_t calm = s.warm_up.us + s.safety.us + s.recovery.us;
  take(healthy, second(calm) + 1, second(calm + s.liveness.us));
  for (const Fault& fault : s.faults)
    take(slow, second(fault.at.us + 10 * s.heartbeat.us) + 1, second(fault.at.us + fault.lasts.us));
  if (slow.size() < slow_samples_min || healthy.size() < slow_samples_min) {
    ++clients_.tally().unjudged;
    return;
  }
  const double bound = 2 * quantile(healthy, 0.99) + 5, seen = quantile(slow, 0.95);
  if (seen > bound)
    report(11, "with a slow node 95 % of the answers take up to " + std::to_string(seen) +
                   " ms, without it 99 % take half of " + std::to_string(bound) + " ms");
}

}  // namespace troupe::sim
