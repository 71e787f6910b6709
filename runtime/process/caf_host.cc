#include "runtime/process/caf_host.h"

#include <algorithm>
#include <caf/all.hpp>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "runtime/process/job_runner.h"
#include "runtime/process/links.h"

// What travels between CAF actors of this process. None of it is ever serialised by CAF: the envelope already
// is.
namespace troupe::caf_local {
struct Launch {};
struct Parcel {
  std::shared_ptr<const Bytes> envelope;
  NodeId peer = 0;  // whose connection it came by; 0: from this process
};
struct Lost {
  NodeId node = 0;
};
struct Due {
  std::uint64_t timer;
};
struct Ended {
  std::shared_ptr<const Event> done;
};
}  // namespace troupe::caf_local

CAF_BEGIN_TYPE_ID_BLOCK(troupe_local, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::Launch))
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::Parcel))
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::Lost))
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::Due))
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::Ended))
CAF_END_TYPE_ID_BLOCK(troupe_local)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::Launch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::Parcel)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::Lost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::Due)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::Ended)

namespace troupe {

using caf_local::Due;
using caf_local::Ended;
using caf_local::Launch;
using caf_local::Lost;
using caf_local::Parcel;

namespace {

struct Routes {  // written before the first actor runs, then only read
  std::map<Address, caf::actor> inside;
  std::unique_ptr<Links> links;  // to other nodes; null: this process is alone
  NodeId node = 0;               // with links: of this process
  bool lead_out(Address to) const { return links && to.node != node; }
};

Instant steady_now() {
  return {std::chrono::duration_cast<std::chrono::microseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

std::shared_ptr<const Event> ended(std::uint64_t job, JobResult result) {
  return std::make_shared<const Event>(Done{job, std::move(result)});
}

// Settings are these and CAF's defaults: no file and no command line is read, because parse() is never
// called. Sharing, because the polling of work stealing costs over 100 µs a hop. The throughput is the number
// of messages that an actor handles in a row, so that a busy one does not starve the rest.
caf::actor_system_config& configure(caf::actor_system_config& config, std::uint32_t threads) {
  if (threads == 0) threads = std::clamp(std::thread::hardware_concurrency(), 1u, 4u);
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", std::size_t{threads});
  config.set("scheduler.max-throughput", std::size_t{64});
  return config;
}

struct Actor {
  ActorSpec spec;
  std::unique_ptr<JobRunner> jobs;  // null without a port
};

// Nobody speaks for another node.
std::optional<Envelope> open(const Journal& journal, Address to, const Parcel& parcel) {
  auto envelope = journal.open(to, *parcel.envelope);
  if (!envelope || parcel.peer == 0 || envelope->from.node == parcel.peer) return envelope;
  journal.protocol_error(name_of(to), "forged_sender",
                         "node " + std::to_string(parcel.peer) + " sends as " + name_of(envelope->from));
  return std::nullopt;
}

// The CAF actor around one core. Its handlers are noexcept: a core that throws is a bug and stops the
// process.
class Shell : public caf::event_based_actor {
 public:
  Shell(caf::actor_config& config, Actor* actor, const Routes* routes, const Journal* journal)
      : caf::event_based_actor(config), actor_(actor), routes_(routes), journal_(journal) {}

  // CAF calls this when the first message wakes the actor and before any message is handled, so that
  // start_timer comes first even if another core was quicker.
  caf::behavior make_behavior() override {
    step(TimerFired{start_timer});
    return {[this](const Parcel& parcel) noexcept { receive(parcel); },
            [this](const Lost& lost) noexcept { step(PeerLost{lost.node}); },
            [this](const Due& due) noexcept { step(TimerFired{due.timer}); },
            [this](const Ended& end) noexcept { step(*end.done); }, [](const Launch&) {}};
  }

  void apply(Effects::Send& effect) {
    const auto route = routes_->inside.find(effect.to);
    const bool leads_out = routes_->lead_out(effect.to);
    if (route == routes_->inside.end() && !leads_out) return journal_->nobody_at(effect.to);
    const Envelope envelope{actor_->spec.address, std::move(effect.message)};
    auto bytes = std::make_shared<const Bytes>(encode(envelope));
    if (leads_out) return routes_->links->send(effect.to, std::move(bytes));
    send(route->second, Parcel{std::move(bytes)});
  }

  // By CAF's clock itself and not by delayed_send, which would add the time since `now` to every delay and
  // could turn round two timers that are close together.
  void apply(Effects::SetTimer& effect) {
    if (effect.at <= now_) return send(this, Due{effect.timer});
    system().clock().schedule_message(
        caf::actor_clock::time_point{std::chrono::microseconds{effect.at.us}}, caf::strong_actor_ptr{ctrl()},
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, Due{effect.timer}));
  }

  void apply(Effects::Start& effect) {
    TROUPE_CHECK(actor_->jobs, "a core without a port started a job");
    if (!actor_->jobs->start(effect.job, std::move(effect.work)))
      send(this, Ended{ended(effect.job, too_many_jobs(actor_->spec))});
  }

  void apply(Effects::Count& effect) { journal_->record(effect); }
  void apply(Effects::Log& effect) { journal_->write(actor_->spec.address, effect); }

 private:
  void receive(const Parcel& parcel) {
    auto envelope = open(*journal_, actor_->spec.address, parcel);
    if (envelope) step(Received{envelope->from, std::move(envelope->message)});
  }

  void step(const Event& event) noexcept {
    Effects effects;
    now_ = steady_now();
    actor_->spec.core->step(now_, event, effects);
    for (auto& effect : effects.list) std::visit([this](auto& one) { apply(one); }, effect);
  }

  Actor* actor_;
  const Routes* routes_;
  const Journal* journal_;
  Instant now_;  // of the step under way
};

class DoorShell : public caf::event_based_actor {
 public:
  DoorShell(caf::actor_config& config, Address address, Host::Door door, const Journal* journal)
      : caf::event_based_actor(config), address_(address), door_(std::move(door)), journal_(journal) {}

  caf::behavior make_behavior() override {
    return {[this](const Parcel& parcel) noexcept {
              auto envelope = open(*journal_, address_, parcel);
              if (envelope) door_(envelope->from, std::move(envelope->message));
            },
            [](const Launch&) {}, [](const Lost&) {}};
  }

 private:
  Address address_;
  Host::Door door_;
  const Journal* journal_;
};

}  // namespace

struct CafHost::World {
  enum class State { building, running, stopped };

  World(MetricRegistry& metrics, LogSink log, std::uint32_t threads)
      : journal(metrics, std::move(log)), threads(threads) {}

  void spawn_all();
  void make_links();
  void start_executors();
  void take_down();

  Journal journal;
  std::uint32_t threads;
  std::map<Address, Actor> actors;  // nodes of a map stay where they are
  std::map<Address, Door> doors;
  std::optional<ClusterPlace> place;
  Routes routes;
  caf::actor_system_config config;
  std::optional<caf::actor_system> system;  // from start() to stop()

  // Posts hold it shared, so that none is under way once stop() has changed the state.
  std::shared_mutex state_mutex;
  State state = State::building;
};

// Lazily: CAF runs none of them before its first message, and by then all routes are known.
void CafHost::World::spawn_all() {
  system.emplace(configure(config, threads));
  for (auto& [address, actor] : actors)
    routes.inside[address] = system->spawn<Shell, caf::lazy_init>(&actor, &routes, &journal);
  for (auto& [address, door] : doors)
    routes.inside[address] = system->spawn<DoorShell, caf::lazy_init>(address, door, &journal);
  // CAF leaves a reference to its logger with the thread that spawns, and the system's destructor waits for
  // all of them: without this, stop() on another thread would never return.
  caf::logger::set_current_actor_system(nullptr);
}

// May throw, and does so before anything runs.
void CafHost::World::make_links() {
  const auto deliver = [this](NodeId peer, Address to, std::shared_ptr<const Bytes> envelope) {
    const auto route = routes.inside.find(to);
    if (route == routes.inside.end()) return journal.nobody_at(to);
    caf::anon_send(route->second, Parcel{std::move(envelope), peer});
  };
  const auto tell_lost = [this](NodeId peer) {
    for (auto& [address, actor] : routes.inside) caf::anon_send(actor, Lost{peer});
  };
  routes.node = place->node;
  routes.links = std::make_unique<Links>(*place, Links::Inside{deliver, tell_lost}, journal);
}

void CafHost::World::start_executors() {
  for (auto& [address, actor] : actors) {
    if (!actor.spec.port) continue;
    auto finish = [self = routes.inside.at(address)](std::uint64_t job, JobResult result) {
      caf::anon_send(self, Ended{ended(job, std::move(result))});
    };
    actor.jobs = std::make_unique<JobRunner>(*actor.spec.port, actor.spec.lanes, actor.spec.jobs_waiting_max,
                                             std::move(finish));
  }
}

void CafHost::World::take_down() {
  if (routes.links) routes.links->close();
  // Then the executors: what they finish is still sent to living actors.
  for (auto& [address, actor] : actors)
    if (actor.jobs) actor.jobs->stop();
  for (auto& [address, actor] : routes.inside) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  system->await_all_actors_done();
  // The last handles go before the system whose actors they name; timers still pending go with the system.
  for (auto& [address, actor] : actors) actor.jobs.reset();
  routes.inside.clear();
  routes.links.reset();
  system.reset();
}

CafHost::CafHost(MetricRegistry& metrics, LogSink log, std::uint32_t threads)
    : world_(std::make_unique<World>(metrics, std::move(log), threads)) {}

CafHost::~CafHost() { stop(); }

void CafHost::join(ClusterPlace place) {
  TROUPE_CHECK(world_->state == World::State::building, "a host joins before start()");
  world_->place = std::move(place);
  world_->make_links();
}

std::uint16_t CafHost::port() const { return world_->routes.links ? world_->routes.links->port() : 0; }

void CafHost::add(ActorSpec actor) {
  World& world = *world_;
  TROUPE_CHECK(world.state == World::State::building, "actors are added before start()");
  const Address address = actor.address;
  TROUPE_CHECK(actor.core && !world.actors.contains(address) && !world.doors.contains(address),
               "one core for each address");
  world.actors[address].spec = std::move(actor);
}

void CafHost::set_door(Address address, Door door) {
  World& world = *world_;
  TROUPE_CHECK(world.state == World::State::building, "doors are set before start()");
  TROUPE_CHECK(door && !world.actors.contains(address) && !world.doors.contains(address),
               "one door for each address");
  world.doors[address] = std::move(door);
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
  if (world.routes.links) world.routes.links->open();  // what comes in may already be answered
  for (auto& [address, actor] : world.routes.inside) caf::anon_send(actor, Launch{});
}

void CafHost::post_encoded(Address to, Bytes envelope) {
  World& world = *world_;
  std::shared_lock lock(world.state_mutex);
  TROUPE_CHECK(world.state != World::State::building, "messages are posted after start()");
  if (world.state == World::State::stopped) return;
  auto bytes = std::make_shared<const Bytes>(std::move(envelope));
  if (world.routes.lead_out(to)) return world.routes.links->send(to, std::move(bytes));
  const auto route = world.routes.inside.find(to);
  if (route == world.routes.inside.end()) return world.journal.nobody_at(to);
  caf::anon_send(route->second, Parcel{std::move(bytes)});
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
