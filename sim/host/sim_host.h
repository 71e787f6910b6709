#pragma once
// The host of the simulated world: any number of nodes with their cores in one thread under virtual time.
// Everything that varies (latencies, the order of events of the same microsecond, clocks) is drawn from one
// seed, so a run is replayed by its seed and compared by its digest. Between cores travel encoded envelopes,
// between nodes through a SimNetwork; a job takes virtual time. Processes can be killed, restarted, stopped
// and given clocks of their own, and whoever watches sees every delivery.
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/actor/seat.h"
#include "runtime/host/host.h"
#include "sim/base/sim_random.h"
#include "sim/host/sim_network.h"
#include "sim/host/sim_processors.h"
#include "sim/host/sim_queue.h"

namespace troupe {

struct SimOptions {
  std::uint64_t seed = 1;
  Seats seats;  // of the actors of several models: they are of the node that their number says
  // Of messages from outside, of news of losses, and of the network's default link; both ends included.
  Duration latency_min{50}, latency_max{500};
  Duration local_min{1}, local_max{20};  // of messages between the cores of one node
  bool in_order = false;  // events of one microsecond come as they were caused, and not in an order by chance
  // Virtual time from the start of a job to its end, for ports that are no SimPort; default 100 µs.
  std::function<Duration(const Address&, const Job&, const JobResult&)> job_cost;
  // Of each node, shared by steps and by jobs that compute (sim_processors.h). 0: steps take no time, and
  // each job has a processor of its own.
  std::uint32_t processors = 0;
  // What a step takes of a processor; called once for each, before it. What the core asked for happens at its
  // end.
  std::function<Duration(const Address& who, const Event& event)> step_takes;
};

// A port that knows how long its jobs take in virtual time and does them at their end. Any other Port runs
// when the job starts, and its answer comes after `job_cost`.
class SimPort : public Port {
 public:
  // The job starts on this lane at the virtual time `now` (not the node's own). `run` is called after the
  // duration, for its result; none: never (a device that hangs), and the lane is lost until the process is
  // killed.
  virtual std::optional<Duration> begin(Instant now, const Job& job, std::uint32_t lane) = 0;
  // The duration has passed: how long the job goes on, after which this is asked again; none: it ends now,
  // with `run`.
  virtual std::optional<Duration> goes_on(Instant, const Job&, std::uint32_t) { return std::nullopt; }
  // Of a job that spends the duration that was told last on a processor: the part that idle ones may take
  // over, 0..1. None: it waits, for a device, a disk or others.
  virtual std::optional<double> computes(const Job&, std::uint32_t) const { return std::nullopt; }
};

// `kill`, `restart` and `stop` must not be called from a core's step, a port or a watch; by at(now(), …) they
// come right after the step.
class SimHost final : public Host {
 public:
  SimHost(MetricRegistry& metrics, LogSink log, SimOptions options);

  void add(ActorSpec actor) override;  // to its node; a node made so can be killed, but not restarted
  // Any time before stop(). Its node may have no process at all: a client.
  void set_door(Address address, Door door) override;
  void start() override;
  // A message from outside: it takes a latency and is never lost.
  void post_encoded(Address to, Bytes envelope) override;
  void stop() override;

  // ---- processes ----

  // The cores of one start of a process. The ports that they name live until the next call of it, or stop().
  using Process = std::function<std::vector<ActorSpec>(Incarnation)>;
  // Started by start(), or at once. One per node.
  void add_process(NodeId node, Process process);
  // SIGKILL: its cores, timers, jobs and the messages between its own cores are gone. Messages of other nodes
  // that are under way arrive at whoever lives there then; at a node without a living process they vanish.
  // Does nothing if it is dead. Nobody is told: announce_lost does that.
  void kill(NodeId node);
  void restart(NodeId node);  // kills it first if it lives; the next incarnation, its clock somewhere else
  // SIGSTOP and SIGCONT: what would be delivered meanwhile is held and comes in its order after resume.
  void pause(NodeId node);
  void resume(NodeId node);
  bool alive(NodeId node) const;
  bool paused(NodeId node) const;
  // Of its present or last process; rises with every start. 0: none was started, or its cores came by `add`.
  Incarnation incarnation(NodeId node) const;

  // ---- clocks: cores see their node's; every other time in this interface is the virtual one ----

  // 0.5 to 2 seconds of the node for each virtual one, from now on without a jump. Stays over restarts.
  void set_clock_rate(NodeId node, double rate);
  Instant local_time(NodeId node) const;

  // ---- the world around them ----

  // Every core that is not on `lost` is told, each after a latency of its own.
  void announce_lost(NodeId lost);
  void announce_lost(NodeId observer, NodeId lost);  // the cores of one node
  SimNetwork& network() { return network_; }
  // A message of a client that is no core: over the network, or within the node, as every core's.
  void post_from(Address from, Address to, Message message);
  // Runs an action of the test then (now, if that is past): before all events of its microsecond that are
  // still to come, in the order in which they were asked for.
  void at(Instant when, std::function<void()> action);

  // Both are called before the core's step or the door, with the virtual time. One of each at most.
  using Watch = std::function<void(Instant, Address from, Address to, const Message&)>;
  void watch_deliveries(Watch watch) { watch_ = std::move(watch); }
  using EventWatch = std::function<void(Instant, Address to, const Event&)>;
  void watch_events(EventWatch watch) { event_watch_ = std::move(watch); }
  // Called for each message of a core when it is sent, whether it will arrive or not.
  void watch_sends(Watch watch) { send_watch_ = std::move(watch); }

  // Delivers all events up to `end`, which then is the time. Returns how many (actions count).
  std::uint64_t run_until(Instant end);
  // Delivers events until none is left or `events_max` were delivered. Returns how many. A core whose timer
  // sets itself again is never idle.
  std::uint64_t run_until_idle(std::uint64_t events_max);

  Instant now() const { return now_; }
  // Over the time, target and content of every event delivered so far.
  std::uint64_t digest() const { return digest_; }
  std::uint64_t events() const { return events_; }  // delivered so far

 private:
  static constexpr std::uint32_t roles = 6;
  static constexpr std::uint32_t anybody = 0;  // as a life: whoever lives there when it arrives
  static constexpr std::uint32_t no_lane = 0xffffffff;

  enum class State { building, running, stopped };
  // Which events of one microsecond come first.
  enum class Class : std::uint64_t { action, start, held, event };

  struct Actor;
  struct Timer {
    std::uint64_t id;
    Instant at;  // on the node's clock
  };
  struct JobEnd {
    std::uint32_t lane;
    std::uint64_t job;
    std::variant<Job, JobResult> what;  // a job that is done at its end, or what came of one
  };
  using Action = std::unique_ptr<std::function<void()>>;
  struct StepEnd {  // of a step that takes time
    Effects effects;
  };
  struct JobLook {  // whether a job that computes has ended
    SimProcessors::Job job;
    std::uint64_t number;
  };
  struct Node;
  struct Item {
    Node* node = nullptr;  // none: an action
    std::uint32_t life = anybody;
    std::uint32_t slot = 0;  // of the actor or door in its node
    std::variant<Timer, Bytes, PeerLost, std::unique_ptr<JobEnd>, Action, std::unique_ptr<StepEnd>, JobLook>
        what;
  };
  struct Actor {
    ActorSpec spec;
    SimPort* sim_port = nullptr;
    std::vector<std::uint8_t> busy;  // per lane
    std::deque<Effects::Start> waiting;
    bool stepping = false;  // and what comes meanwhile waits
    std::deque<Item> mailbox;
  };
  struct Computing {  // a job that is at a processor
    std::uint32_t slot = 0;
    std::unique_ptr<JobEnd> end;
    Instant looked_at;         // next
    std::uint64_t number = 0;  // of that look: others are stale
  };
  struct Node {
    NodeId id = 0;
    std::vector<std::unique_ptr<Actor>>
        actors;  // by slot: those of the first model and of all, then those of the next
    std::vector<Door> doors;
    Process process;
    bool has_process = false, alive = false, paused = false;
    std::uint32_t life = 1;  // counts its processes
    Incarnation incarnation = 0;
    std::vector<Item> held;  // while it is paused
    double clock_rate = 1;
    Instant clock_set_at, clock_set_to;  // its clock said `to` at the virtual time `at`
    SimRandom random;
    std::unique_ptr<SimProcessors> processors;  // null: there are as many as it takes
    std::map<SimProcessors::Job, Computing> computing;
  };

  // Numbers that are of no model are clients'.
  std::uint32_t model_of(NodeId number) const {
    return options_.seats.model_of(number) < options_.seats.models ? options_.seats.model_of(number) : 0;
  }
  NodeId node_of(NodeId number) const {
    return model_of(number) > 0 ? options_.seats.node_of(number) : number;
  }
  std::uint32_t slot_of(Address address) const {
    return model_of(address.node) * roles + static_cast<std::uint32_t>(address.role);
  }
  std::uint32_t slot_of(const Actor& actor) const { return slot_of(actor.spec.address); }
  Address address_of(const Item& item) const {
    return {item.slot < roles ? item.node->id : options_.seats.number(item.node->id, item.slot / roles),
            static_cast<Role>(item.slot % roles)};
  }
  static Actor* actor_of(const Item& item) { return item.node->actors[item.slot].get(); }
  Node* find(NodeId id) const;
  Node& node_at(NodeId id);  // made, if there is none
  Node& known(NodeId id) const;
  void settle(Node& node, ActorSpec spec);
  void begin_process(Node& node);
  void schedule_starts(Node& node);

  Instant clock(const Node& node) const;
  Instant when(const Node& node, Instant local) const;

  void carry(Address from, Address to, Bytes envelope);
  void tell(Node& node, NodeId lost);
  void schedule(Instant at, Item item, Class order = Class::event);
  void schedule_end(Instant at, Node& node, Actor& actor, JobEnd end);
  bool deliver_next();
  static bool waits(const Item& item);
  void deliver(Item& item, Bytes& envelope);
  void deliver(Item& item, Timer& timer);
  void deliver(Item& item, PeerLost& lost);
  void deliver(Item& item, std::unique_ptr<JobEnd>& end);
  void deliver(Item& item, Action& action);
  void deliver(Item& item, std::unique_ptr<StepEnd>& end);
  void deliver(Item& item, JobLook& look);
  void show(Address to, const Event& event);
  void digest(const Item& item, std::initializer_list<std::uint64_t> content);  // at most 4 numbers
  void step(Node& node, Actor& actor, const Event& event);
  void apply_all(Node& node, Actor& actor, Effects& effects);
  void apply(Node& node, Actor& actor, Effects::Send& effect);
  void apply(Node& node, Actor& actor, Effects::SetTimer& effect);
  void apply(Node& node, Actor& actor, Effects::Start& effect);
  void apply(Node& node, Actor& actor, Effects::Count& effect);
  void apply(Node& node, Actor& actor, Effects::Log& effect);
  void start_waiting_jobs(Node& node, Actor& actor);
  void start_job(Node& node, Actor& actor, std::uint32_t lane, Effects::Start start);
  void pass_time(Node& node, Actor& actor, JobEnd end, Duration takes);
  void compute(Node& node, Actor& actor, JobEnd end, Duration takes, double shared);
  void look_at_jobs(Node& node);
  void look_at(Node& node, SimProcessors::Job job, Computing& computing);

  Journal journal_;
  SimOptions options_;
  SimNetwork network_;
  SimRandom outside_;
  State state_ = State::building;
  bool in_core_ = false;                     // a core, a port or a watch is on the stack
  std::deque<Node> nodes_;                   // in the order in which they became known; they stay in place
  std::unordered_map<NodeId, Node*> by_id_;  // never iterated
  SimQueue<Item> queue_;
  std::uint64_t ordered_ = 0;  // actions and held events so far
  std::vector<Instant> arrivals_;
  Effects effects_;  // of the step under way; kept for its memory
  Watch watch_, send_watch_;
  EventWatch event_watch_;
  Instant now_;
  std::uint64_t digest_ = 0, events_ = 0;
};

}  // namespace troupe
