// Runs the actors of all simulated nodes in one thread under virtual time. It delivers messages,
// timers and job results in an order that the seed determines.
#include "sim/host/sim_host.h"

#include <xxhash.h>

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe {
namespace {

// Random streams of the run's seed that belong to no node.
constexpr std::uint64_t network_stream = std::uint64_t{1} << 40, outside_stream = network_stream + 1;

// Marks that a core, a port or a watch is on the stack; no process may be killed meanwhile.
class InsideCore {
 public:
  explicit InsideCore(bool& flag) : flag_(flag), before_(std::exchange(flag, true)) {}
  ~InsideCore() { flag_ = before_; }

 private:
  bool& flag_;
  const bool before_;
};

}  // namespace

SimHost::SimHost(MetricRegistry& metrics, LogSink log, SimOptions options)
    : journal_(metrics, std::move(log)),
      options_(std::move(options)),
      network_(RandomStream(options_.seed, network_stream).next()),
      outside_(options_.seed, outside_stream) {
  for (auto [min, max] : {std::pair(options_.latency_min, options_.latency_max),
                          std::pair(options_.local_min, options_.local_max)})
    TROUPE_CHECK(Duration{0} <= min && min <= max, "a latency range must satisfy 0 <= min <= max");
  if (!options_.job_cost) options_.job_cost = [](auto&&...) { return Duration{100}; };
  if (!options_.step_takes) options_.step_takes = [](auto&&...) { return Duration{0}; };
  network_.set_default({.latency_min = options_.latency_min, .latency_max = options_.latency_max});
}

// ---- scheduling ----

void SimHost::schedule(Instant at, Item item, EventOrder order) {
  const bool by_chance = (order == EventOrder::start || order == EventOrder::event) && !options_.in_order;
  const std::uint64_t within = by_chance ? item.node->random.next() >> 2 : ordered_++;
  queue_.push(at, static_cast<std::uint64_t>(order) << 62 | within, std::move(item));
}

void SimHost::post_encoded(Address to, Bytes envelope) {
  TROUPE_CHECK(state_ != State::building, "messages must be posted after start()");
  if (state_ != State::running) return;
  Node* node = find(to.node);
  if (!node) return journal_.report_no_receiver(to);
  const Duration latency = outside_.between(options_.latency_min, options_.latency_max);
  schedule(now_ + latency, {node, any_life, slot_of(to), std::move(envelope)});
}

void SimHost::post_from(Address from, Address to, Message message) {
  TROUPE_CHECK(state_ != State::building, "messages must be posted after start()");
  if (state_ == State::running) carry(from, to, encode(Envelope{from, std::move(message)}));
}

// Single path of every message that a core or client sends.
void SimHost::carry(Address from, Address to, Bytes envelope) {
  Node* node = find(to.node);
  if (!node) return journal_.report_no_receiver(to);
  const NodeId sender = node_of(from.node);
  if (sender == node->id) {
    if (node->has_process && !node->alive) return;
    const Duration latency = node->random.between(options_.local_min, options_.local_max);
    return schedule(now_ + latency, {node, node->life, slot_of(to), std::move(envelope)});
  }
  network_.carry(now_, sender, node->id, envelope.size(), arrivals_);
  for (std::size_t i = 1; i < arrivals_.size(); ++i)
    schedule(arrivals_[i], {node, any_life, slot_of(to), envelope});
  if (!arrivals_.empty()) schedule(arrivals_[0], {node, any_life, slot_of(to), std::move(envelope)});
}

void SimHost::tell(Node& node, NodeId lost) {
  for (auto& actor : node.actors) {
    if (!actor) continue;
    const Duration latency = node.random.between(options_.latency_min, options_.latency_max);
    schedule(now_ + latency, {&node, node.life, slot_of(*actor), PeerLost{lost}});
  }
}

void SimHost::announce_lost(NodeId observer, NodeId lost) { tell(process_node(observer), lost); }

void SimHost::at(Instant when, std::function<void()> action) {
  TROUPE_CHECK(action, "an action must not be empty");
  if (state_ == State::stopped) return;
  Item item;
  item.what = std::make_unique<std::function<void()>>(std::move(action));
  schedule(std::max(now_, when), std::move(item), EventOrder::action);
}

// ---- delivery ----

std::uint64_t SimHost::run_until(Instant end) {
  std::uint64_t delivered = 0;
  while (!queue_.empty() && queue_.next_at() <= end) delivered += deliver_next();
  now_ = std::max(now_, end);
  return delivered;
}

// Returns false if the event was meant for a process that is dead or paused.
bool SimHost::deliver_next() {
  now_ = queue_.next_at();
  Item item = queue_.pop();
  if (Node* node = item.node) {
    if (item.life != any_life && item.life != node->life) return false;
    if (node->has_process && !node->alive) return false;
    if (node->paused) {
      item.life = node->life;  // it has arrived in this process's buffers and is lost if the process dies
      node->held.push_back(std::move(item));
      return false;
    }
    if (Actor* actor = actor_of(item); actor && actor->stepping && waits(item)) {
      actor->mailbox.push_back(std::move(item));
      return false;
    }
  }
  std::visit([&](auto& what) { deliver(item, what); }, item.what);
  return true;
}

// True if the event must wait until the current step ends, because it would make the actor step.
bool SimHost::waits(const Item& item) {
  return !std::holds_alternative<std::unique_ptr<StepEnd>>(item.what) &&
         !std::holds_alternative<JobCheck>(item.what);
}

void SimHost::deliver(Item&, Action& action) { (*action)(); }

void SimHost::deliver(Item& item, Bytes& bytes) {
  digest(item, {XXH3_64bits(bytes.data(), bytes.size())});
  const Address to = address_of(item);
  Actor* actor = actor_of(item);
  const ServerHandler& server = item.node->servers[item.slot];
  if (!actor && !server) return journal_.report_no_receiver(to);
  auto envelope = journal_.open(to, bytes);
  if (!envelope) return;
  Event event = Received{envelope->from, std::move(envelope->message)};
  if (actor) return step(*item.node, *actor, std::move(event));
  show(to, event);
  auto& [from, message] = std::get<Received>(event);
  server(from, std::move(message));
}

void SimHost::deliver(Item& item, Timer& timer) {
  digest(item, {timer.id});
  step(*item.node, *actor_of(item), TimerFired{timer.id});
}

void SimHost::deliver(Item& item, PeerLost& lost) {
  digest(item, {lost.node});
  step(*item.node, *actor_of(item), lost);
}

void SimHost::deliver(Item& item, std::unique_ptr<JobEnd>& end) {
  Actor& actor = *actor_of(item);
  if (auto* job = std::get_if<Job>(&end->what)) {
    const InsideCore inside(in_core_);
    if (const auto more = actor.sim_port->goes_on(now_, *job, end->job_slot))
      return pass_time(*item.node, actor, std::move(*end), *more);
    end->what = actor.sim_port->run(*job, end->job_slot);
  }
  auto& result = std::get<JobResult>(end->what);
  digest(item, {end->job_slot, end->job, result.index()});
  if (end->job_slot != no_slot) actor.busy[end->job_slot] = 0;
  start_waiting_jobs(*item.node, actor);
  step(*item.node, actor, JobDone{end->job, std::move(result)});
}

// Applies the step's effects, then delivers events from the mailbox until one takes time again.
void SimHost::deliver(Item& item, std::unique_ptr<StepEnd>& end) {
  Actor& actor = *actor_of(item);
  actor.stepping = false;
  apply_all(*item.node, actor, end->effects);
  while (!actor.stepping && !actor.mailbox.empty()) {
    Item next = std::move(actor.mailbox.front());
    actor.mailbox.pop_front();
    std::visit([&](auto& what) { deliver(next, what); }, next.what);
  }
}

void SimHost::deliver(Item& item, JobCheck& look) {
  Node& node = *item.node;
  const auto at = node.computing.find(look.job);
  if (at == node.computing.end() || at->second.number != look.number) return;
  if (!node.processors->end(now_, look.job)) return schedule_check(node, look.job, at->second);
  Computing ended = std::move(at->second);
  node.computing.erase(at);
  reschedule_checks(node);  // the remaining jobs have more processors now
  schedule(now_, {&node, node.life, ended.slot, std::move(ended.end)});
}

void SimHost::show(Address to, const Event& event) {
  if (!watch_ && !event_watch_) return;
  const InsideCore inside(in_core_);
  if (auto* received = std::get_if<Received>(&event); received && watch_)
    watch_(now_, received->from, to, received->message);
  if (event_watch_) event_watch_(now_, to, event);
}

void SimHost::digest(const Item& item, std::initializer_list<std::uint64_t> content) {
  ++events_;
  std::uint64_t numbers[8] = {static_cast<std::uint64_t>(now_.us), item.node->id, item.slot,
                              item.what.index()};
  std::ranges::copy(content, numbers + 4);
  digest_ = XXH3_64bits_withSeed(numbers, sizeof numbers, digest_);
}

// ---- effects of a core ----

void SimHost::step(Node& node, Actor& actor, Event&& event) {
  show(actor.spec.address, event);
  const InsideCore inside(in_core_);
  effects_.list.clear();
  const Duration takes = node.processors ? options_.step_takes(actor.spec.address, event) : Duration{0};
  actor.spec.core->step(clock(node), std::move(event), effects_);
  if (takes.us <= 0) return apply_all(node, actor, effects_);
  actor.stepping = true;
  auto end = std::make_unique<StepEnd>();
  std::swap(end->effects.list, effects_.list);
  schedule(node.processors->step(now_, takes), {&node, node.life, slot_of(actor), std::move(end)});
}

void SimHost::apply_all(Node& node, Actor& actor, Effects& effects) {
  for (auto& effect : effects.list) std::visit([&](auto& one) { apply(node, actor, one); }, effect);
}

void SimHost::apply(Node&, Actor& actor, Effects::Send& effect) {
  const Address from = actor.spec.address;
  if (send_watch_) send_watch_(now_, from, effect.to, effect.message);
  carry(from, effect.to, encode(Envelope{from, std::move(effect.message)}));
}

void SimHost::apply(Node& node, Actor& actor, Effects::SetTimer& effect) {
  schedule(when(node, effect.at), {&node, node.life, slot_of(actor), Timer{effect.timer, effect.at}});
}

void SimHost::apply(Node& node, Actor& actor, Effects::Start& effect) {
  TROUPE_CHECK(actor.spec.port, "a core without a port started a job");
  const bool all_busy = std::ranges::find(actor.busy, 0) == actor.busy.end();
  if (all_busy && actor.waiting.size() >= actor.spec.jobs_waiting_max)
    return schedule_end(now_, node, actor, {no_slot, effect.job, JobResult(too_many_jobs(actor.spec))});
  actor.waiting.push_back(std::move(effect));
  start_waiting_jobs(node, actor);
}

void SimHost::apply(Node&, Actor&, Effects::Count& effect) { journal_.record(effect); }
void SimHost::apply(Node&, Actor& actor, Effects::Log& effect) { journal_.write(actor.spec.address, effect); }

void SimHost::schedule_end(Instant at, Node& node, Actor& actor, JobEnd end) {
  schedule(at, {&node, node.life, slot_of(actor), std::make_unique<JobEnd>(std::move(end))});
}

void SimHost::start_waiting_jobs(Node& node, Actor& actor) {
  while (!actor.waiting.empty()) {
    const auto idle = std::ranges::find(actor.busy, 0);
    if (idle == actor.busy.end()) return;
    *idle = 1;
    Effects::Start start = std::move(actor.waiting.front());
    actor.waiting.pop_front();
    start_job(node, actor, static_cast<std::uint32_t>(idle - actor.busy.begin()), std::move(start));
  }
}

void SimHost::start_job(Node& node, Actor& actor, std::uint32_t job_slot, Effects::Start start) {
  const InsideCore inside(in_core_);
  if (actor.sim_port) {
    const auto takes = actor.sim_port->begin(now_, start.work, job_slot);
    if (takes) pass_time(node, actor, {job_slot, start.job, std::move(start.work)}, *takes);
    return;
  }
  JobResult result = actor.spec.port->run(start.work, job_slot);
  const Duration takes = options_.job_cost(actor.spec.address, start.work, result);
  schedule_end(now_ + takes, node, actor, {job_slot, start.job, std::move(result)});
}

void SimHost::pass_time(Node& node, Actor& actor, JobEnd end, Duration takes) {
  const auto shared =
      node.processors ? actor.sim_port->computes(std::get<Job>(end.what), end.job_slot) : std::nullopt;
  if (shared) return compute(node, actor, std::move(end), takes, *shared);
  schedule_end(now_ + takes, node, actor, std::move(end));
}

void SimHost::compute(Node& node, Actor& actor, JobEnd end, Duration takes, double shared) {
  const SimProcessors::Job job = node.processors->begin(now_, takes, shared);
  Computing& computing = node.computing[job];
  computing.slot = slot_of(actor);
  computing.end = std::make_unique<JobEnd>(std::move(end));
  schedule_check(node, job, computing);
}

// Reschedules the checks of jobs that now end earlier than their next check. Jobs that end later are
// noticed at that check.
void SimHost::reschedule_checks(Node& node) {
  for (auto& [job, computing] : node.computing)
    if (node.processors->end_of(job) < computing.next_check) schedule_check(node, job, computing);
}

void SimHost::schedule_check(Node& node, SimProcessors::Job job, Computing& computing) {
  computing.next_check = std::max(now_, node.processors->end_of(job));
  schedule(computing.next_check, {&node, node.life, computing.slot, JobCheck{job, ++computing.number}});
}

}  // namespace troupe
