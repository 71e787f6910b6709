// Starts and ends the faults of a scenario at their times, and counts those that found something to
// act on. The files injector_*.cc contain their effects.
#include "sim/injector/injector.h"

#include <algorithm>

namespace troupe::sim {
namespace {

constexpr Duration note_every{20'000}, again_every{60'000};

bool is_instant(FaultKind kind) { return traits_of(kind).lasts == FaultDuration::again; }

}  // namespace

Injector::Injector(Cluster& cluster, Clients& clients, Violations& violations)
    : cluster_(cluster), clients_(clients), violations_(violations), faults_(cluster.scenario().faults) {
  cluster_.on_poison = [this](NodeId node, std::uint64_t content) {
    cluster_.host().at(cluster_.now(), [this, node, content] { on_poison(node, content); });
  };
  cluster_.on_struck = [this](NodeId node, FaultKind kind) {
    cluster_.host().at(cluster_.now(), [this, node, kind] { on_struck(node, kind); });
  };
  cluster_.host().set_server(operator_, [this](Address from, Message message) {
    const auto* status = std::get_if<StatusReply>(&message);
    if (!status) return;
    const bool drained = std::ranges::any_of(
        status->fields, [](const StatusField& f) { return f.name == "drained" && f.value == "yes"; });
    if (drained) draining_[cluster_.actor_ids().node_of(from.node)].left.erase(from);
  });
}

// ---- schedule ----

void Injector::schedule_all() {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Instant at = Instant{} + faults_[i].at;
    cluster_.host().at(at, [this, i] { strike(i); });
    cluster_.host().at(at + faults_[i].lasts, [this, i] { end(i); });
    const bool instant = is_instant(faults_[i].kind);
    const std::int64_t every = instant ? again_every.us : note_every.us;
    for (std::int64_t us = every; us < faults_[i].lasts.us; us += every)
      cluster_.host().at(at + Duration{us}, [this, i, instant] { instant ? act(i) : note_phases(); });
  }
}

// Gives each fault its own random stream, independent of other faults.
void Injector::seed_draws(const Fault& fault) {
  random_ = RandomStream(mix(cluster_.scenario().seed, static_cast<std::uint64_t>(fault.kind),
                             static_cast<std::uint64_t>(cluster_.now().us)),
                         41 + fault.node);
}

void Injector::strike(std::size_t index) {
  if (healed_) return;
  if (history) history("fault strikes: " + describe(faults_[index]));
  active_.insert(index);
  act(index);
}

void Injector::act(std::size_t index) {
  if (!active_.contains(index)) return;
  seed_draws(faults_[index]);
  if (const actors::CacheMetaCore* leader = cluster_.leader()) last_token_ = leader->token();
  const PhaseSet met = phases_now();
  if (apply(index, true)) note_acted(index, met);
}

void Injector::end(std::size_t index) {
  if (active_.erase(index) == 0) return;
  const bool acted = acted_.contains(index);
  if (!acted) ++missed_[static_cast<std::size_t>(faults_[index].kind)];
  if (history)
    history((acted ? "fault ends: " : "fault ends without having acted: ") + describe(faults_[index]));
  seed_draws(faults_[index]);
  apply(index, false);
}

void Injector::heal() {
  while (!active_.empty()) end(*active_.begin());
  healed_ = true;
  for (auto& [id, node] : cluster_.nodes()) {
    if (node.draining && cluster_.now() >= draining_[id].give_up) judge_drained(node);
    if (node.draining) bring_back(id);
    node.draining = false;
    cluster_.restart(id);
  }
}

bool Injector::apply(std::size_t index, bool on) {
  static constexpr Effect effects[] = {
#define TROUPE_X(name, place, needs, harm, lasts, does, text) &Injector::does,
      TROUPE_FOR_EACH_FAULT(TROUPE_X)
#undef TROUPE_X
  };
  const Fault& fault = faults_[index];
  return (this->*effects[static_cast<std::size_t>(fault.kind)])(
      {index, fault, on, strongest(fault.kind, fault.node)});
}

// ---- active faults and coverage ----

std::size_t Injector::active(FaultKind kind, NodeId node) const {
  return static_cast<std::size_t>(std::ranges::count_if(active_, [&](std::size_t index) {
    return faults_[index].kind == kind && (node == 0 || faults_[index].node == node);
  }));
}

const Fault* Injector::strongest_fault(FaultKind kind, NodeId node) const {
  const Fault* strongest = nullptr;
  for (const std::size_t index : active_) {
    const Fault& fault = faults_[index];
    if (fault.kind != kind || fault.node != node) continue;
    if (!strongest || fault.intensity > strongest->intensity) strongest = &fault;
  }
  return strongest;
}

double Injector::strongest(FaultKind kind, NodeId node) const {
  const Fault* fault = strongest_fault(kind, node);
  return fault ? fault->intensity : 0;
}

Instant Injector::last_end(FaultKind kind, NodeId node) const {
  Instant last;
  for (const std::size_t index : active_)
    if (faults_[index].kind == kind && faults_[index].node == node)
      last = std::max(last, Instant{} + faults_[index].at + faults_[index].lasts);
  return last;
}

Slowness Injector::slowness(FaultKind kind, NodeId node, double factor) const {
  return active(kind, node) > 0 ? Slowness{factor, last_end(kind, node)} : Slowness{};
}

Injector::PhaseSet Injector::phases_now() const {
  PhaseSet set;
  for (std::size_t phase = 0; phase < phases; ++phase)
    set[phase] = cluster_.in_phase(static_cast<Phase>(phase));
  return set;
}

void Injector::note_acted(std::size_t index, const PhaseSet& met) {
  const auto kind = static_cast<std::size_t>(faults_[index].kind);
  injected_[kind] += acted_.insert(index).second;
  for (std::size_t phase = 0; phase < phases; ++phase) coverage_[kind][phase] += met[phase];
}

void Injector::note_phases() {
  std::set<std::size_t> kinds;
  for (const std::size_t index : active_)
    if (acted_.contains(index) && !is_instant(faults_[index].kind))
      kinds.insert(static_cast<std::size_t>(faults_[index].kind));
  if (kinds.empty()) return;
  const PhaseSet met = phases_now();
  for (const std::size_t kind : kinds)
    for (std::size_t phase = 0; phase < phases; ++phase) coverage_[kind][phase] += met[phase];
}

}  // namespace troupe::sim
