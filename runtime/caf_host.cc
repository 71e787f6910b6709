#include "runtime/caf_host.h"

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

#include "kernels/check.h"
#include "runtime/job_runner.h"

// What travels between CAF actors of this process. None of it is ever serialised by CAF: the envelope already
// is.
namespace troupe::caf_local {
struct Launch {};
struct Parcel {
  std::shared_ptr<const Bytes> envelope;
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
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::Due))
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::Ended))
CAF_END_TYPE_ID_BLOCK(troupe_local)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::Launch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::Parcel)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::Due)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::Ended)

namespace troupe {

using caf_local::Due;
using caf_local::Ended;
using caf_local::Launch;
using caf_local::Parcel;

namespace {

using Routes = std::map<Address, caf::actor>;  // written before the first actor runs, then only read

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
    return {[this](const Parcel& parcel) noexcept { receive(*parcel.envelope); },
            [this](const Due& due) noexcept { step(TimerFired{due.timer}); },
            [this](const Ended& end) noexcept { step(*end.done); }, [](const Launch&) {}};
  }

  void apply(Effects::Send& effect) {
    auto route = routes_->find(effect.to);
    if (route == routes_->end()) return journal_->nobody_at(effect.to);
    Envelope envelope{actor_->spec.address, std::move(effect.message)};
    send(route->second, Parcel{std::make_shared<const Bytes>(encode(envelope))});
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
  void receive(const Bytes& bytes) {
    auto envelope = journal_->open(actor_->spec.address, bytes);
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
              auto envelope = journal_->open(address_, *parcel.envelope);
              if (envelope) door_(envelope->from, std::move(envelope->message));
            },
            [](const Launch&) {}};
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
  void start_executors();

  Journal journal;
  std::uint32_t threads;
  std::map<Address, Actor> actors;  // nodes of a map stay where they are
  std::map<Address, Door> doors;
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
    routes[address] = system->spawn<Shell, caf::lazy_init>(&actor, &routes, &journal);
  for (auto& [address, door] : doors)
    routes[address] = system->spawn<DoorShell, caf::lazy_init>(address, door, &journal);
  // CAF leaves a reference to its logger with the thread that spawns, and the system's destructor waits for
  // all of them: without this, stop() on another thread would never return.
  caf::logger::set_current_actor_system(nullptr);
}

void CafHost::World::start_executors() {
  for (auto& [address, actor] : actors) {
    if (!actor.spec.port) continue;
    auto finish = [self = routes.at(address)](std::uint64_t job, JobResult result) {
      caf::anon_send(self, Ended{ended(job, std::move(result))});
    };
    actor.jobs = std::make_unique<JobRunner>(*actor.spec.port, actor.spec.lanes, actor.spec.jobs_waiting_max,
                                             std::move(finish));
  }
}

CafHost::CafHost(MetricRegistry& metrics, LogSink log, std::uint32_t threads)
    : world_(std::make_unique<World>(metrics, std::move(log), threads)) {}

CafHost::~CafHost() { stop(); }

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
  for (auto& [address, actor] : world.routes) caf::anon_send(actor, Launch{});
}

void CafHost::post_encoded(Address to, Bytes envelope) {
  World& world = *world_;
  std::shared_lock lock(world.state_mutex);
  TROUPE_CHECK(world.state != World::State::building, "messages are posted after start()");
  if (world.state == World::State::stopped) return;
  auto route = world.routes.find(to);
  if (route == world.routes.end()) return world.journal.nobody_at(to);
  caf::anon_send(route->second, Parcel{std::make_shared<const Bytes>(std::move(envelope))});
}

void CafHost::stop() {
  World& world = *world_;
  {
    std::unique_lock lock(world.state_mutex);
    if (world.state == World::State::stopped) return;
    world.state = World::State::stopped;
  }
  if (!world.system) return;
  // Executors first: what they finish is still sent to living actors.
  for (auto& [address, actor] : world.actors)
    if (actor.jobs) actor.jobs->stop();
  for (auto& [address, actor] : world.routes) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  world.system->await_all_actors_done();
  // The last handles go before the system whose actors they name; timers still pending go with the system.
  for (auto& [address, actor] : world.actors) actor.jobs.reset();
  world.routes.clear();
  world.system.reset();
}

}  // namespace troupe
