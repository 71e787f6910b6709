// Nodes of the simulated host: their processes, faults on them, and their clocks.
#include <algorithm>
#include <cmath>

#include "kernels/base/check.h"
#include "sim/host/sim_host.h"

namespace troupe {
namespace {

// Maximum uptime of a machine at start: 12.7 days.
constexpr std::uint64_t boot_span_us = std::uint64_t{1} << 40;
constexpr std::int64_t far_us = std::int64_t{1} << 60;  // later than any run

}  // namespace

SimHost::Node* SimHost::find(NodeId id) const {
  const auto at = by_id_.find(node_of(id));
  return at == by_id_.end() ? nullptr : at->second;
}

SimHost::Node& SimHost::node_at(NodeId id) {
  id = node_of(id);
  Node*& node = by_id_[id];
  if (!node) {
    node = &nodes_.emplace_back();
    node->id = id;
    node->random = RandomStream(options_.seed, id);
    node->actors.resize(std::size_t{roles} * options_.actor_ids.models);
    node->servers.resize(node->actors.size());
  }
  return *node;
}

SimHost::Node& SimHost::process_node(NodeId id) const {
  Node* node = find(id);
  TROUPE_CHECK(node && node->has_process, "the node must have a process");
  return *node;
}

void SimHost::install(Node& node, ActorSpec spec) {
  const std::uint32_t slot = slot_of(spec.address);
  TROUPE_CHECK(node_of(spec.address.node) == node.id, "a process may only hold cores of its own node");
  TROUPE_CHECK(spec.core && slot < node.actors.size() && !node.actors[slot] && !node.servers[slot],
               "each address must have exactly one core or client handler");
  TROUPE_CHECK(!spec.port || spec.slots > 0, "a port needs at least one lane");
  if (options_.processors > 0 && !node.processors)
    node.processors = std::make_unique<SimProcessors>(options_.processors);
  auto actor = std::make_unique<Actor>();
  actor->sim_port = dynamic_cast<SimPort*>(spec.port);
  actor->busy.assign(spec.port ? spec.slots : 0, 0);
  actor->spec = std::move(spec);
  node.actors[slot] = std::move(actor);
}

void SimHost::add(ActorSpec actor) {
  TROUPE_CHECK(state_ == State::building, "actors must be added before start()");
  Node& node = node_at(actor.address.node);
  TROUPE_CHECK(!node.process, "a node with a process must get its cores from that process");
  node.has_process = node.alive = true;
  install(node, std::move(actor));
}

void SimHost::set_server(Address address, ServerHandler server) {
  TROUPE_CHECK(state_ != State::stopped, "client handlers must be set before stop()");
  Node& node = node_at(address.node);
  const std::uint32_t slot = slot_of(address);
  TROUPE_CHECK(server && slot < node.servers.size() && !node.actors[slot] && !node.servers[slot],
               "each address must have exactly one core or client handler");
  node.servers[slot] = std::move(server);
}

void SimHost::start() {
  TROUPE_CHECK(state_ == State::building, "a host must be started only once");
  state_ = State::running;
  for (Node& node : nodes_) {
    if (node.process)
      begin_process(node);
    else
      schedule_starts(node);
  }
}

void SimHost::stop() {
  TROUPE_CHECK(!in_core_, "a core, port or watch must not stop its host");
  state_ = State::stopped;
  queue_.clear();
  for (Node& node : nodes_) {
    node.held.clear();
    for (auto& actor : node.actors)
      if (actor) actor->waiting.clear();
  }
}

// ---- processes ----

void SimHost::add_process(NodeId id, Process process) {
  TROUPE_CHECK(state_ != State::stopped, "processes must be added before stop()");
  Node& node = node_at(id);
  TROUPE_CHECK(process && !node.has_process, "a node must have at most one process");
  node.process = std::move(process);
  node.has_process = true;
  if (state_ == State::running) begin_process(node);
}

void SimHost::begin_process(Node& node) {
  node.incarnation = std::max(node.incarnation + 1, static_cast<Incarnation>(now_.us + 1) << 16);
  node.clock_set_at = now_;
  node.clock_set_to = {static_cast<std::int64_t>(node.random.below(boot_span_us))};
  node.alive = true;
  for (ActorSpec& spec : node.process(node.incarnation)) install(node, std::move(spec));
  schedule_starts(node);
}

void SimHost::schedule_starts(Node& node) {
  for (auto& actor : node.actors)
    if (actor)
      schedule(now_, {&node, node.life, slot_of(*actor), Timer{start_timer, clock(node)}}, EventOrder::start);
}

void SimHost::kill(NodeId id) {
  TROUPE_CHECK(!in_core_, "a core, port or watch must not kill a process; schedule it with at(now(), …)");
  Node& node = process_node(id);
  if (!node.alive) return;
  node.alive = node.paused = false;
  ++node.life;
  node.held.clear();
  node.processors.reset();
  node.computing.clear();
  for (auto& actor : node.actors) actor.reset();
}

void SimHost::restart(NodeId id) {
  Node& node = process_node(id);
  TROUPE_CHECK(node.process && state_ == State::running,
               "a process can be restarted only while the host runs");
  kill(id);
  begin_process(node);
}

void SimHost::pause(NodeId id) {
  Node& node = process_node(id);
  node.paused = node.alive;
}

void SimHost::resume(NodeId id) {
  Node& node = process_node(id);
  node.paused = false;
  for (Item& item : node.held) schedule(now_, std::move(item), EventOrder::held);
  node.held.clear();
}

bool SimHost::alive(NodeId id) const {
  const Node* node = find(id);
  return node && node->alive;
}

bool SimHost::paused(NodeId id) const {
  const Node* node = find(id);
  return node && node->paused;
}

Incarnation SimHost::incarnation(NodeId id) const {
  const Node* node = find(id);
  return node ? node->incarnation : 0;
}

// ---- clocks ----

namespace {

Duration scaled(Duration virtual_time, double rate) {
  if (rate == 1) return virtual_time;
  return {static_cast<std::int64_t>(std::floor(static_cast<double>(virtual_time.us) * rate))};
}

}  // namespace

Instant SimHost::clock(const Node& node) const {
  return node.clock_set_to + scaled(now_ - node.clock_set_at, node.clock_rate);
}

// Returns the first virtual time, now or later, at which the node's clock shows `local`.
Instant SimHost::when(const Node& node, Instant local) const {
  if (local <= clock(node)) return now_;
  const Duration ahead = local - node.clock_set_to;
  if (ahead.us >= far_us) return {far_us};
  if (node.clock_rate == 1) return node.clock_set_at + ahead;
  Duration passed{static_cast<std::int64_t>(static_cast<double>(ahead.us) / node.clock_rate)};
  while (scaled(passed, node.clock_rate) < ahead) ++passed.us;
  return node.clock_set_at + passed;
}

void SimHost::set_clock_rate(NodeId id, double rate) {
  TROUPE_CHECK(0.5 <= rate && rate <= 2, "a clock rate must be in 0.5..2");
  Node& node = node_at(id);
  node.clock_set_to = clock(node);
  node.clock_set_at = now_;
  node.clock_rate = rate;
  queue_.reschedule([&](const Item& item, Instant at) {
    const auto* timer = std::get_if<Timer>(&item.what);
    return timer && item.node == &node ? when(node, timer->at) : at;
  });
}

Instant SimHost::local_time(NodeId id) const {
  const Node* node = find(id);
  return node ? clock(*node) : now_;
}

}  // namespace troupe
