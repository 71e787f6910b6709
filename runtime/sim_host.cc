#include "runtime/sim_host.h"

#include <xxhash.h>

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "kernels/check.h"

namespace troupe {

SimHost::SimHost(MetricRegistry& metrics, LogSink log, SimOptions options)
    : journal_(metrics, std::move(log)), options_(std::move(options)), random_(options_.seed) {
  TROUPE_CHECK(Duration{0} <= options_.latency_min && options_.latency_min <= options_.latency_max,
               "latency_min and latency_max are a range that starts at 0 or later");
  if (!options_.job_cost) options_.job_cost = [](auto&&...) { return Duration{100}; };
}

void SimHost::add(ActorSpec actor) {
  TROUPE_CHECK(state_ == State::building, "actors are added before start()");
  const Address address = actor.address;
  TROUPE_CHECK(actor.core && !actors_.contains(address) && !doors_.contains(address),
               "one core for each address");
  TROUPE_CHECK(!actor.port || actor.lanes > 0, "a port needs at least one lane");
  Actor& added = actors_[address];
  for (std::uint32_t lane = 0; lane < actor.lanes; ++lane) added.free_lanes.insert(lane);
  added.spec = std::move(actor);
}

void SimHost::set_door(Address address, Door door) {
  TROUPE_CHECK(state_ == State::building, "doors are set before start()");
  TROUPE_CHECK(door && !actors_.contains(address) && !doors_.contains(address), "one door for each address");
  doors_[address] = std::move(door);
}

void SimHost::start() {
  TROUPE_CHECK(state_ == State::building, "a host starts once");
  state_ = State::running;
  for (auto& [address, actor] : actors_) schedule(now_, {address, TimerFired{start_timer}}, true);
}

void SimHost::post_encoded(Address to, Bytes envelope) {
  TROUPE_CHECK(state_ != State::building, "messages are posted after start()");
  if (state_ == State::running) carry(to, std::move(envelope));
}

void SimHost::stop() {
  state_ = State::stopped;
  queue_.clear();
  for (auto& [address, actor] : actors_) actor.waiting.clear();
}

void SimHost::announce_lost(NodeId node) {
  for (auto& [address, actor] : actors_)
    if (address.node != node) schedule(now_ + draw_latency(), {address, PeerLost{node}});
}

std::uint64_t SimHost::run_until(Instant end) {
  std::uint64_t delivered = 0;
  for (; !queue_.empty() && std::get<Instant>(queue_.begin()->first) <= end; ++delivered) deliver_next();
  now_ = std::max(now_, end);
  return delivered;
}

std::uint64_t SimHost::run_until_idle(std::uint64_t events_max) {
  std::uint64_t delivered = 0;
  for (; !queue_.empty() && delivered < events_max; ++delivered) deliver_next();
  return delivered;
}

// The one way of every message, also of those from outside: a model of loss, doubling or partition sits here.
void SimHost::carry(Address to, Bytes envelope) {
  if (!actors_.contains(to) && !doors_.contains(to)) return journal_.nobody_at(to);
  schedule(now_ + draw_latency(), {to, std::move(envelope)});
}

void SimHost::schedule(Instant at, Item item, bool start) {
  queue_.emplace(Key{at, !start, draw(), scheduled_++}, std::move(item));
}

void SimHost::deliver_next() {
  auto node = queue_.extract(queue_.begin());
  now_ = std::get<Instant>(node.key());
  Item& item = node.mapped();
  digest_item(item);
  std::visit([&](auto& what) { deliver(item.to, what); }, item.what);
}

void SimHost::deliver(Address to, Bytes& bytes) {
  auto envelope = journal_.open(to, bytes);
  if (!envelope) return;
  if (auto door = doors_.find(to); door != doors_.end())
    door->second(envelope->from, std::move(envelope->message));
  else
    step(actors_.at(to), Received{envelope->from, std::move(envelope->message)});
}

void SimHost::deliver(Address to, JobEnd& end) {
  Actor& actor = actors_.at(to);
  actor.free_lanes.insert(end.lane);
  run_waiting_jobs(actor);
  step(actor, std::move(end.done));
}

void SimHost::step(Actor& actor, Event event) {
  Effects effects;
  actor.spec.core->step(now_, event, effects);
  for (auto& effect : effects.list) std::visit([&](auto& one) { apply(actor, one); }, effect);
}

void SimHost::apply(Actor& actor, Effects::Send& effect) {
  carry(effect.to, encode(Envelope{actor.spec.address, std::move(effect.message)}));
}

void SimHost::apply(Actor& actor, Effects::SetTimer& effect) {
  schedule(std::max(now_, effect.at), {actor.spec.address, TimerFired{effect.timer}});
}

void SimHost::apply(Actor& actor, Effects::Start& effect) {
  TROUPE_CHECK(actor.spec.port, "a core without a port started a job");
  if (actor.free_lanes.empty() && actor.waiting.size() >= actor.spec.jobs_waiting_max) {
    schedule(now_, {actor.spec.address, Done{effect.job, too_many_jobs(actor.spec)}});
    return;
  }
  actor.waiting.push_back(std::move(effect));
  run_waiting_jobs(actor);
}

void SimHost::apply(Actor&, Effects::Count& effect) { journal_.record(effect); }
void SimHost::apply(Actor& actor, Effects::Log& effect) { journal_.write(actor.spec.address, effect); }

void SimHost::run_waiting_jobs(Actor& actor) {
  while (!actor.waiting.empty() && !actor.free_lanes.empty()) {
    const Effects::Start start = std::move(actor.waiting.front());
    actor.waiting.pop_front();
    const std::uint32_t lane = actor.free_lanes.extract(actor.free_lanes.begin()).value();
    JobResult result = actor.spec.port->run(start.work, lane);
    const Instant end = now_ + options_.job_cost(actor.spec.address, start.work, result);
    schedule(end, {actor.spec.address, JobEnd{lane, Done{start.job, std::move(result)}}});
  }
}

void SimHost::digest_item(const Item& item) {
  auto mix = [this](const void* data, std::size_t size) {
    digest_ = XXH3_64bits_withSeed(data, size, digest_);
  };
  auto mix_numbers = [&](std::initializer_list<std::uint64_t> list) { mix(list.begin(), list.size() * 8); };
  mix_numbers({static_cast<std::uint64_t>(now_.us), item.to.node, static_cast<std::uint64_t>(item.to.role),
               item.what.index()});
  if (auto* bytes = std::get_if<Bytes>(&item.what)) mix(bytes->data(), bytes->size());
  if (auto* fired = std::get_if<TimerFired>(&item.what)) mix_numbers({fired->timer});
  if (auto* lost = std::get_if<PeerLost>(&item.what)) mix_numbers({lost->node});
  if (auto* end = std::get_if<JobEnd>(&item.what))
    mix_numbers({end->lane, end->done.job, end->done.result.index()});
  if (auto* done = std::get_if<Done>(&item.what)) mix_numbers({done->job, done->result.index()});
}

std::uint64_t SimHost::draw() {
  std::uint64_t z = (random_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Duration SimHost::draw_latency() {
  const auto span = static_cast<std::uint64_t>(options_.latency_max.us - options_.latency_min.us) + 1;
  return {options_.latency_min.us + static_cast<std::int64_t>(draw() % span)};
}

}  // namespace troupe
