// Starts and ends the faults of a scenario at their times, and counts those that found something to
// act on. The files *_injector.cc contain their effects.
#include "sim/injector/injector.h"

#include <set>

namespace troupe::sim {
namespace {

constexpr Duration note_every{20'000}, again_every{60'000};

bool is_instant(FaultKind kind) { return traits_of(kind).lasts == FaultDuration::again; }

}  // namespace

Injector::Injector(Cluster& cluster, Clients& clients, Violations& violations)
    : cluster_(cluster),
      faults_(cluster.scenario()),
      parts_{ProcessInjector(cluster, clients, violations, faults_,
                             [this](const std::string& line) {
                               if (history) history(line);
                             }),
             NetworkInjector(cluster, faults_),
             StorageInjector(cluster, faults_, parts_.processes),
             DeviceInjector(cluster, faults_, parts_.processes),
             LoadInjector(cluster, clients, violations, faults_, parts_.processes),
             AuthorityInjector(cluster, clients, faults_, parts_.processes, parts_.network, parts_.load)} {
  cluster_.on_poison = [this](NodeId node, std::uint64_t content) {
    cluster_.host().at(cluster_.now(), [this, node, content] { parts_.load.on_poison(node, content); });
  };
  cluster_.on_struck = [this](NodeId node, FaultKind kind) {
    cluster_.host().at(cluster_.now(), [this, node, kind] { on_struck(node, kind); });
  };
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

void Injector::strike(std::size_t index) {
  if (faults_.healed()) return;
  if (history) history("fault strikes: " + describe(faults_[index]));
  faults_.begin(index);
  act(index);
}

void Injector::act(std::size_t index) {
  if (!faults_.is_active(index)) return;
  parts_.authority.note_leader();
  const PhaseSet met = phases_now();
  if (apply(index, true)) note_acted(index, met);
}

void Injector::end(std::size_t index) {
  if (!faults_.end(index)) return;
  const bool acted = faults_.has_acted(index);
  if (!acted) ++missed_[static_cast<std::size_t>(faults_[index].kind)];
  if (history)
    history((acted ? "fault ends: " : "fault ends without having acted: ") + describe(faults_[index]));
  apply(index, false);
}

void Injector::heal() {
  while (!faults_.active().empty()) end(*faults_.active().begin());
  faults_.heal();
  parts_.processes.heal();
}

bool Injector::apply(std::size_t index, bool on) {
  const Fault& fault = faults_[index];
  RandomStream random = faults_.draws(fault, cluster_.now());
  const FaultChange change{index, fault, on, faults_.strongest(fault.kind, fault.node), random};
  switch (fault.kind) {
#define TROUPE_X(name, place, needs, harm, lasts, does, text) \
  case FaultKind::name:                                       \
    return parts_.does(change);
    TROUPE_FOR_EACH_FAULT(TROUPE_X)
#undef TROUPE_X
    default:
      return false;
  }
}

// A fault that waits for a job counts as injected once it has acted.
void Injector::on_struck(NodeId node, FaultKind kind) {
  const PhaseSet met = phases_now();
  faults_.for_each(kind, [&](std::size_t index, const Fault& fault) {
    if (fault.node == node) note_acted(index, met);
  });
  parts_.storage.on_struck(node, kind);
}

// ---- coverage ----

Injector::PhaseSet Injector::phases_now() const {
  PhaseSet set;
  for (std::size_t phase = 0; phase < phases; ++phase)
    set[phase] = cluster_.in_phase(static_cast<Phase>(phase));
  return set;
}

void Injector::note_acted(std::size_t index, const PhaseSet& met) {
  const auto kind = static_cast<std::size_t>(faults_[index].kind);
  injected_[kind] += faults_.set_acted(index);
  for (std::size_t phase = 0; phase < phases; ++phase) coverage_[kind][phase] += met[phase];
}

void Injector::note_phases() {
  std::set<std::size_t> kinds;
  for (const std::size_t index : faults_.active())
    if (faults_.has_acted(index) && !is_instant(faults_[index].kind))
      kinds.insert(static_cast<std::size_t>(faults_[index].kind));
  if (kinds.empty()) return;
  const PhaseSet met = phases_now();
  for (const std::size_t kind : kinds)
    for (std::size_t phase = 0; phase < phases; ++phase) coverage_[kind][phase] += met[phase];
}

}  // namespace troupe::sim
