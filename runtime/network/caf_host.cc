// Runs a node's actors on CAF (C++ Actor Framework) in real time. It creates one CAF actor per
// core, gives each port its executor threads, connects the node to its peers and shuts
// everything down in order.
#include "runtime/network/caf_host.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "kernels/base/check.h"
#include "runtime/network/caf_executor_slot.h"
#include "runtime/network/caf_shell.h"
#include "runtime/network/inline_runs.h"
#include "runtime/profiling/process_limits.h"

namespace troupe {

using caf_local::EncodedMessage;
using caf_local::LocalMessage;
using caf_local::PeerLossSignal;
using caf_local::StartSignal;

namespace {

// Default size of the thread pool: executor threads of ports and the thread that serves the links run
// most steps themselves.
constexpr unsigned cores_per_thread = 4, threads_max = 4;

// All settings are these or CAF's defaults: parse() is never called, so no file and no command line
// is read. The policy is "sharing", because the polling of work stealing costs over 100 µs per hop.
// The throughput is the number of messages that an actor handles in a row; it keeps a busy actor
// from starving the others.
caf::actor_system_config& configure(caf::actor_system_config& config, std::uint32_t threads) {
  if (threads == 0) threads = std::clamp(usable_cores() / cores_per_thread, 1u, threads_max);
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", std::size_t{threads});
  config.set("scheduler.max-throughput", std::size_t{64});
  return config;
}

// Decoding a larger message would take the thread that has read it longer than waking another one.
constexpr std::size_t inline_bytes_max = 64 << 10;

// Sends an event from a thread that serves sockets, and runs the actors that it wakes on that thread,
// unless such runs have taken too much of its time. An actor with many messages does not keep the thread:
// heartbeats and the sockets of other nodes wait.
template <class What>
void post_and_run(caf::actor_system& system, const caf::actor& to, What&& what) {
  thread_local InlineRuns runs;
  const auto begin = std::chrono::steady_clock::now();
  if (!runs.may_run(begin)) return post_to(to, std::forward<What>(what), nullptr);
  CafExecutorSlot slot(system);
  post_to(to, std::forward<What>(what), &slot);
  if (slot.is_idle()) return;  // the actor runs on another thread already
  slot.run_ready(1);
  runs.note_run(begin, std::chrono::steady_clock::now());
}

}  // namespace

struct CafHost::World {
  enum class State { building, running, stopped };

  World(MetricRegistry& metrics, LogSink log, std::uint32_t threads, Inside inside)
      : journal(metrics, std::move(log)), threads(threads) {
    routes.encode_inside = inside == Inside::bytes;
  }

  void spawn_all();
  void make_links();
  void start_executors();
  void take_down();

  Journal journal;
  std::uint32_t threads;
  std::map<Address, CafActor> actors;  // a map, because its entries have stable addresses
  std::map<Address, ServerHandler> servers;
  std::optional<ClusterOptions> options;
  Routes routes;
  caf::actor_system_config config;
  std::optional<caf::actor_system> system;  // exists from start() to stop()

  // Posts hold it shared, so that none is running once stop() has changed the state.
  std::shared_mutex state_mutex;
  State state = State::building;
};

// Spawns the actors lazily: CAF runs an actor only at its first message, and by then all routes are
// known.
void CafHost::World::spawn_all() {
  system.emplace(configure(config, threads));
  for (auto& [address, actor] : actors)
    routes.inside[address] = system->spawn<Shell, caf::lazy_init>(&actor, &routes, &journal);
  for (auto& [address, server] : servers)
    routes.inside[address] = system->spawn<ServerShell, caf::lazy_init>(address, server, &routes, &journal);
  // CAF leaves a reference to its logger with the thread that spawns, and the system's destructor
  // waits until all references are gone. Without this call, stop() on another thread would never
  // return.
  caf::logger::set_current_actor_system(nullptr);
}

// May throw, but only before anything runs.
void CafHost::World::make_links() {
  const auto deliver = [this](NodeId peer, Address to, std::shared_ptr<const Bytes> envelope) {
    const auto route = routes.inside.find(to);
    if (route == routes.inside.end()) return journal.report_no_receiver(to);
    const bool large = envelope->size() > inline_bytes_max;
    EncodedMessage message{std::move(envelope), peer};
    if (large) return post_to(route->second, std::move(message), nullptr);
    post_and_run(*system, route->second, std::move(message));
  };
  const auto report_lost = [this](NodeId peer) {
    for (auto& [address, actor] : routes.inside) post_to(actor, PeerLossSignal{peer}, nullptr);
  };
  routes.node = options->node;
  routes.actor_ids = options->actor_ids;
  routes.links = std::make_unique<Links>(*options, Links::Inside{deliver, report_lost}, journal);
}

void CafHost::World::start_executors() {
  for (auto& [address, actor] : actors) {
    if (!actor.spec.port) continue;
    auto finish = [this, self = routes.inside.at(address)](std::uint64_t job, JobResult result) {
      CafExecutorSlot slot(*system);
      post_to(self, LocalMessage{JobDone{job, std::move(result)}}, &slot);
      slot.run_ready();
    };
    auto finish_begun = [this, self = routes.inside.at(address)](std::uint64_t job, JobResult result) {
      post_and_run(*system, self, LocalMessage{JobDone{job, std::move(result)}});
    };
    actor.jobs = std::make_unique<JobRunner>(*actor.spec.port, actor.spec.slots, actor.spec.jobs_waiting_max,
                                             std::move(finish), component_of_port(address.role),
                                             std::move(finish_begun));
  }
}

void CafHost::World::take_down() {
  if (routes.links) routes.links->close();
  // Stop the executors second: the results of their last jobs are still sent to living actors.
  for (auto& [address, actor] : actors)
    if (actor.jobs) actor.jobs->stop();
  for (auto& [address, actor] : routes.inside) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  system->await_all_actors_done();
  // Drop the last handles before the system that owns their actors; pending timers end with the
  // system.
  for (auto& [address, actor] : actors) actor.jobs.reset();
  routes.inside.clear();
  routes.links.reset();
  system.reset();
}

CafHost::CafHost(MetricRegistry& metrics, LogSink log, std::uint32_t threads, Inside inside)
    : world_(std::make_unique<World>(metrics, std::move(log), threads, inside)) {}

CafHost::~CafHost() { stop(); }

void CafHost::join(ClusterOptions options) {
  TROUPE_CHECK(world_->state == World::State::building, "a host joins before start()");
  world_->options = std::move(options);
  world_->make_links();
}

void CafHost::follow(std::vector<PeerAddress> peers) {
  if (world_->routes.links) world_->routes.links->follow(std::move(peers));
}

void CafHost::open_pages(NodeId node, Incarnation incarnation, Links::TakeSocket take) {
  World& world = *world_;
  std::shared_lock lock(world.state_mutex);
  if (world.state == World::State::stopped || !world.routes.links) return;
  world.routes.links->open_pages(node, incarnation, std::move(take));
}

std::uint16_t CafHost::port() const { return world_->routes.links ? world_->routes.links->port() : 0; }

std::string CafHost::renew_certificates() {
  return world_->routes.links ? world_->routes.links->renew_certificates() : "";
}

void CafHost::add(ActorSpec actor) {
  World& world = *world_;
  TROUPE_CHECK(world.state == World::State::building, "actors are added before start()");
  const Address address = actor.address;
  TROUPE_CHECK(actor.core && !world.actors.contains(address) && !world.servers.contains(address),
               "one core for each address");
  world.actors[address].spec = std::move(actor);
}

void CafHost::set_server(Address address, ServerHandler server) {
  World& world = *world_;
  TROUPE_CHECK(world.state == World::State::building, "servers are set before start()");
  TROUPE_CHECK(server && !world.actors.contains(address) && !world.servers.contains(address),
               "one server for each address");
  world.servers[address] = std::move(server);
}

void CafHost::start() {
  World& world = *world_;
  TROUPE_CHECK(world.state == World::State::building, "a host starts once");
  world.spawn_all();
  world.start_executors();
  {
    std::unique_lock lock(world.state_mutex);
    world.state = World::State::running;
  }
  if (world.routes.links) world.routes.links->open();  // from here on messages come in
  for (auto& [address, actor] : world.routes.inside) post_to(actor, StartSignal{}, nullptr);
}

void CafHost::post(Address to, Address from, Message message) {
  World& world = *world_;
  std::shared_lock lock(world.state_mutex);
  TROUPE_CHECK(world.state != World::State::building, "messages are posted after start()");
  if (world.state == World::State::stopped) return;
  world.routes.send(from, to, std::move(message), server_unit(*world.system), world.journal);
}

void CafHost::post_encoded(Address to, Bytes envelope) {
  World& world = *world_;
  std::shared_lock lock(world.state_mutex);
  TROUPE_CHECK(world.state != World::State::building, "messages are posted after start()");
  if (world.state == World::State::stopped) return;
  auto bytes = std::make_shared<const Bytes>(std::move(envelope));
  if (world.routes.is_remote(to)) return world.routes.links->send(to, std::move(bytes));
  const auto route = world.routes.inside.find(to);
  if (route == world.routes.inside.end()) return world.journal.report_no_receiver(to);
  post_to(route->second, EncodedMessage{std::move(bytes)}, nullptr);
}

void CafHost::stop() {
  World& world = *world_;
  {
    std::unique_lock lock(world.state_mutex);
    if (world.state == World::State::stopped) return;
    world.state = World::State::stopped;
  }
  if (world.system) world.take_down();
}

}  // namespace troupe
