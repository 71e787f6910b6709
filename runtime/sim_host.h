#pragma once
// The host of the simulated world: any number of cores in one thread under virtual time. Everything that
// varies (the latency of each message, the order of events of the same microsecond) is drawn from one seed,
// so a run is replayed by its seed and compared by its digest. Between cores travel encoded envelopes; a port
// runs at the moment its job starts, and its answer arrives after the virtual time that `job_cost` says.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <variant>

#include "runtime/host.h"

namespace troupe {

struct SimOptions {
  std::uint64_t seed = 1;
  Duration latency_min{50}, latency_max{500};  // of each message, both ends included
  // Virtual time from the start of a job to its end; default 100 µs.
  std::function<Duration(const Address&, const Job&, const JobResult&)> job_cost;
};

class SimHost final : public Host {
 public:
  SimHost(MetricRegistry& metrics, LogSink log, SimOptions options);

  void add(ActorSpec actor) override;
  void set_door(Address address, Door door) override;
  void start() override;
  void post_encoded(Address to, Bytes envelope) override;
  void stop() override;

  // Every core that is not on `node` is told that it is lost, each after a latency of its own.
  void announce_lost(NodeId node);

  // Delivers all events up to `end`, which then is the time. Returns how many.
  std::uint64_t run_until(Instant end);
  // Delivers events until none is left or `events_max` were delivered. Returns how many. A core whose timer
  // sets itself again is never idle.
  std::uint64_t run_until_idle(std::uint64_t events_max);

  Instant now() const { return now_; }
  // Over the time, target and content of every event delivered so far.
  std::uint64_t digest() const { return digest_; }

 private:
  enum class State { building, running, stopped };
  struct Actor {
    ActorSpec spec;
    std::set<std::uint32_t> free_lanes;
    std::deque<Effects::Start> waiting;
  };
  struct JobEnd {
    std::uint32_t lane;
    Done done;
  };
  struct Item {
    Address to;
    std::variant<Bytes, TimerFired, PeerLost, JobEnd, Done> what;  // Done alone: a job that never had a lane
  };
  // Time, then start timers first, then chance, then (draws may repeat) the order of scheduling.
  using Key = std::tuple<Instant, bool, std::uint64_t, std::uint64_t>;

  void carry(Address to, Bytes envelope);
  void schedule(Instant at, Item item, bool start = false);
  void deliver_next();
  void deliver(Address to, Bytes& envelope);
  void deliver(Address to, TimerFired& fired) { step(actors_.at(to), fired); }
  void deliver(Address to, PeerLost& lost) { step(actors_.at(to), lost); }
  void deliver(Address to, JobEnd& end);
  void deliver(Address to, Done& done) { step(actors_.at(to), std::move(done)); }
  void step(Actor& actor, Event event);
  void apply(Actor& actor, Effects::Send& effect);
  void apply(Actor& actor, Effects::SetTimer& effect);
  void apply(Actor& actor, Effects::Start& effect);
  void apply(Actor& actor, Effects::Count& effect);
  void apply(Actor& actor, Effects::Log& effect);
  void run_waiting_jobs(Actor& actor);
  void digest_item(const Item& item);
  std::uint64_t draw();
  Duration draw_latency();

  Journal journal_;
  SimOptions options_;
  std::uint64_t random_;  // state of a SplitMix64 generator
  State state_ = State::building;
  std::map<Address, Actor> actors_;
  std::map<Address, Door> doors_;
  std::map<Key, Item> queue_;
  std::uint64_t scheduled_ = 0;
  Instant now_;
  std::uint64_t digest_ = 0;
};

}  // namespace troupe
