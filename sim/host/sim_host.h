#pragma once
// Host of the simulated world: runs any number of nodes with their cores in one thread under virtual time.
// All variation (latencies, the order of events in one microsecond, clocks) is drawn from one seed, so a
// run is replayed by its seed and compared by its digest. Cores exchange encoded envelopes, nodes are
// connected by a SimNetwork, and a job takes virtual time. Processes can be killed, restarted and paused
// and have their own clocks. Watches see every delivery.
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

#include "runtime/actor/model_actor_ids.h"
#include "runtime/host/host.h"
#include "sim/base/random_stream.h"
#include "sim/host/sim_network.h"
#include "sim/host/sim_processors.h"
#include "sim/host/sim_queue.h"

namespace troupe {

struct SimOptions {
  std::uint64_t seed = 1;
  ModelActorIds actor_ids;  // maps per-model actor ids to the node that they run on
  // Latency of messages from outside, of loss notices, and of the network's default link. Both ends
  // included.
  Duration latency_min{50}, latency_max{500};
  Duration local_min{1}, local_max{20};  // latency between the cores of one node
  bool in_order = false;  // deliver events of one microsecond in causal order instead of random order
  // Virtual time from the start of a job to its end, for ports that are not a SimPort. Default: 100 µs.
  std::function<Duration(const Address&, const Job&, const JobResult&)> job_cost;
  // Processors per node, shared by steps and by jobs that compute (sim_processors.h). 0 = steps take no
  // time and each job has its own processor.
  std::uint32_t processors = 0;
  // Processor time of one step; called once before each step. The step's effects are applied when that time
  // has passed.
  std::function<Duration(const Address& who, const Event& event)> step_takes;
};

// Port that defines the virtual duration of its jobs and computes their results at their end. Any other
// Port runs when the job starts, and its result is delivered after `job_cost`.
class SimPort : public Port {
 public:
  // Starts the job on executor slot `job_slot` at virtual time `now` (not the node's own clock) and returns
  // its duration. `run` is called after that duration. nullopt = the job never ends (a hung device), and the
  // slot is lost until the process is killed.
  virtual std::optional<Duration> begin(Instant now, const Job& job, std::uint32_t job_slot) = 0;
  // Called when the duration has passed. Returns how much longer the job runs, after which it is called
  // again; nullopt = the job ends now with `run`.
  virtual std::optional<Duration> goes_on(Instant, const Job&, std::uint32_t) { return std::nullopt; }
  // Returns the parallel fraction (0..1) of a job that spends its last returned duration on a processor:
  // idle processors may share that part. nullopt = the job waits for a device, a disk or other nodes.
  virtual std::optional<double> computes(const Job&, std::uint32_t) const { return std::nullopt; }
};

// `kill`, `restart` and `stop` must not be called from a core's step, a port or a watch. Schedule them with
// at(now(), …); they then run right after the step.
class SimHost final : public Host {
 public:
  SimHost(MetricRegistry& metrics, LogSink log, SimOptions options);

  // Adds a core to its node; such a node can be killed but not restarted.
  void add(ActorSpec actor) override;
  // Registers a client's message handler. Allowed any time before stop(). The node of `address` needs no
  // process.
  void set_server(Address address, ServerHandler server) override;
  void start() override;
  // Delivers a message from outside the cluster. The message takes a latency and is never lost.
  void post_encoded(Address to, Bytes envelope) override;
  void stop() override;

  // ---- processes ----

  // Creates the cores of one start of a process. Their ports must live until the next call or until stop().
  using Process = std::function<std::vector<ActorSpec>(Incarnation)>;
  // Adds the process of a node, at most one per node. The process is started by start(), or immediately if
  // the host already runs.
  void add_process(NodeId node, Process process);
  // Kills the process (SIGKILL). Its cores, timers, jobs and the messages between its own cores are lost.
  // Messages in flight from other nodes are delivered to the process that lives there on arrival; without a
  // living process they are dropped. Does nothing if the process is dead. No peer is notified; call
  // announce_lost for that.
  void kill(NodeId node);
  void restart(NodeId node);  // kills a living process first; starts the next incarnation with a new clock
  // Pauses and continues a process (SIGSTOP, SIGCONT). Deliveries are held during the pause and made in
  // order after resume.
  void pause(NodeId node);
  void resume(NodeId node);
  bool alive(NodeId node) const;
  bool paused(NodeId node) const;
  // Returns the incarnation of the current or last process, which grows with every start. 0 = no process
  // was started, or its cores came by `add`.
  Incarnation incarnation(NodeId node) const;

  // ---- clocks: a core sees its node's clock; every other time in this interface is virtual ----

  // Sets the node's clock to run at `rate` (0.5..2) times virtual time from now on, without a jump. The
  // rate survives restarts.
  void set_clock_rate(NodeId node, double rate);
  Instant local_time(NodeId node) const;

  // ---- the world around them ----

  // Notifies the cores of `observer`, each after its own random latency.
  void announce_lost(NodeId observer, NodeId lost);
  SimNetwork& network() { return network_; }
  // Sends a message of a client that is not a core. Within the node or over the network, the message is
  // treated like a core's.
  void post_from(Address from, Address to, Message message);
  // Runs a test action at `when` (now, if that is in the past). Actions run before all pending events of
  // the same microsecond, in the order of these calls.
  void at(Instant when, std::function<void()> action);

  // Both watches are called before the core's step or the client handler, with the virtual time. At most
  // one of each kind.
  using Watch = std::function<void(Instant, Address from, Address to, const Message&)>;
  void watch_deliveries(Watch watch) { watch_ = std::move(watch); }
  using EventWatch = std::function<void(Instant, Address to, const Event&)>;
  void watch_events(EventWatch watch) { event_watch_ = std::move(watch); }
  // Called for each message when a core sends it, whether it arrives or not.
  void watch_sends(Watch watch) { send_watch_ = std::move(watch); }

  // Delivers all events up to `end` and sets the time to `end`. Returns the number of events, including
  // actions.
  std::uint64_t run_until(Instant end);

  Instant now() const { return now_; }
  // Digest of time, target and content of every event delivered so far.
  std::uint64_t digest() const { return digest_; }
  std::uint64_t events() const { return events_; }  // delivered so far

 private:
  static constexpr std::uint32_t roles = 6;
  static constexpr std::uint32_t any_life = 0;  // special `life`: the process that lives there on arrival
  static constexpr std::uint32_t no_slot = 0xffffffff;

  enum class State { building, running, stopped };
  // Order of the events of one microsecond.
  enum class EventOrder : std::uint64_t { action, start, held, event };

  struct Actor;
  struct Timer {
    std::uint64_t id;
    Instant at;  // on the node's clock
  };
  struct JobEnd {
    std::uint32_t job_slot;
    std::uint64_t job;
    std::variant<Job, JobResult> what;  // a SimPort's job, run at its end, or another port's result
  };
  using Action = std::unique_ptr<std::function<void()>>;
  struct StepEnd {  // end of a step that takes time
    Effects effects;
  };
  struct JobCheck {  // check whether a computing job has ended
    SimProcessors::Job job;
    std::uint64_t number;
  };
  struct Node;
  struct Item {
    Node* node = nullptr;  // null = an action
    std::uint32_t life = any_life;
    std::uint32_t slot = 0;  // of the actor or client handler in its node
    std::variant<Timer, Bytes, PeerLost, std::unique_ptr<JobEnd>, Action, std::unique_ptr<StepEnd>, JobCheck>
        what;
  };
  struct Actor {
    ActorSpec spec;
    SimPort* sim_port = nullptr;
    std::vector<std::uint8_t> busy;  // per executor slot
    std::deque<Effects::Start> waiting;
    bool stepping = false;  // a step is running; events wait in the mailbox
    std::deque<Item> mailbox;
  };
  struct Computing {  // a job on a processor
    std::uint32_t slot = 0;
    std::unique_ptr<JobEnd> end;
    Instant next_check;        // time of the next check
    std::uint64_t number = 0;  // number of that check; other checks are stale
  };
  struct Node {
    NodeId id = 0;
    std::vector<std::unique_ptr<Actor>>
        actors;  // by slot: first model and shared actors, then the other models
    std::vector<ServerHandler> servers;
    Process process;
    bool has_process = false, alive = false, paused = false;
    std::uint32_t life = 1;  // counts the node's processes
    Incarnation incarnation = 0;
    std::vector<Item> held;  // deliveries held while paused
    double clock_rate = 1;
    Instant clock_set_at, clock_set_to;  // the clock showed `clock_set_to` at virtual time `clock_set_at`
    RandomStream random;
    std::unique_ptr<SimProcessors> processors;  // null = unlimited processors
    std::map<SimProcessors::Job, Computing> computing;
  };

  // Returns the model of an actor id; ids that belong to no model are clients' and give 0.
  std::uint32_t model_of(NodeId number) const {
    return options_.actor_ids.model_of(number) < options_.actor_ids.models
               ? options_.actor_ids.model_of(number)
               : 0;
  }
  NodeId node_of(NodeId number) const {
    return model_of(number) > 0 ? options_.actor_ids.node_of(number) : number;
  }
  std::uint32_t slot_of(Address address) const {
    return model_of(address.node) * roles + static_cast<std::uint32_t>(address.role);
  }
  std::uint32_t slot_of(const Actor& actor) const { return slot_of(actor.spec.address); }
  Address address_of(const Item& item) const {
    return {item.slot < roles ? item.node->id : options_.actor_ids.number(item.node->id, item.slot / roles),
            static_cast<Role>(item.slot % roles)};
  }
  static Actor* actor_of(const Item& item) { return item.node->actors[item.slot].get(); }
  Node* find(NodeId id) const;
  Node& node_at(NodeId id);  // creates the node if it does not exist
  Node& process_node(NodeId id) const;
  void install(Node& node, ActorSpec spec);
  void begin_process(Node& node);
  void schedule_starts(Node& node);

  Instant clock(const Node& node) const;
  Instant when(const Node& node, Instant local) const;

  void carry(Address from, Address to, Bytes envelope);
  void tell(Node& node, NodeId lost);
  void schedule(Instant at, Item item, EventOrder order = EventOrder::event);
  void schedule_end(Instant at, Node& node, Actor& actor, JobEnd end);
  bool deliver_next();
  static bool waits(const Item& item);
  void deliver(Item& item, Bytes& envelope);
  void deliver(Item& item, Timer& timer);
  void deliver(Item& item, PeerLost& lost);
  void deliver(Item& item, std::unique_ptr<JobEnd>& end);
  void deliver(Item& item, Action& action);
  void deliver(Item& item, std::unique_ptr<StepEnd>& end);
  void deliver(Item& item, JobCheck& look);
  void show(Address to, const Event& event);
  void digest(const Item& item, std::initializer_list<std::uint64_t> content);  // at most 4 numbers
  void step(Node& node, Actor& actor, Event&& event);
  void apply_all(Node& node, Actor& actor, Effects& effects);
  void apply(Node& node, Actor& actor, Effects::Send& effect);
  void apply(Node& node, Actor& actor, Effects::SetTimer& effect);
  void apply(Node& node, Actor& actor, Effects::Start& effect);
  void apply(Node& node, Actor& actor, Effects::Count& effect);
  void apply(Node& node, Actor& actor, Effects::Log& effect);
  void start_waiting_jobs(Node& node, Actor& actor);
  void start_job(Node& node, Actor& actor, std::uint32_t job_slot, Effects::Start start);
  void pass_time(Node& node, Actor& actor, JobEnd end, Duration takes);
  void compute(Node& node, Actor& actor, JobEnd end, Duration takes, double shared);
  void reschedule_checks(Node& node);
  void schedule_check(Node& node, SimProcessors::Job job, Computing& computing);

  Journal journal_;
  SimOptions options_;
  SimNetwork network_;
  RandomStream outside_;
  State state_ = State::building;
  bool in_core_ = false;                     // true while a core, port or watch is on the stack
  std::deque<Node> nodes_;                   // in order of creation; addresses are stable
  std::unordered_map<NodeId, Node*> by_id_;  // never iterated
  SimQueue<Item> queue_;
  std::uint64_t ordered_ = 0;  // number of actions and held events so far
  std::vector<Instant> arrivals_;
  Effects effects_;  // of the current step; kept to reuse its memory
  Watch watch_, send_watch_;
  EventWatch event_watch_;
  Instant now_;
  std::uint64_t digest_ = 0, events_ = 0;
};

}  // namespace troupe
