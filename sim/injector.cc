#include "sim/injector.h"

#include <algorithm>

namespace troupe::sim {
namespace {

constexpr Duration note_every{20'000}, again_every{60'000};

// Their effect is there at once, and nothing ends.
bool is_instant(FaultKind kind) {
  switch (kind) {
    case FaultKind::false_alarm:
    case FaultKind::stale_leader:
    case FaultKind::disk_corrupt:
    case FaultKind::disk_swapped:
    case FaultKind::memory_corruption:
      return true;
    default:
      return false;
  }
}

}  // namespace

Injector::Injector(Cluster& cluster, Clients& clients, Violations& violations)
    : cluster_(cluster),
      clients_(clients),
      violations_(violations),
      faults_(cluster.scenario().faults),
      striking_(faults_.size()) {
  cluster_.on_poison = [this](NodeId node, std::uint64_t content) {
    cluster_.host().at(cluster_.now(), [this, node, content] { on_poison(node, content); });
  };
  cluster_.host().set_door(operator_, [this](Address from, Message message) {
    const auto* status = std::get_if<StatusReply>(&message);
    if (!status) return;
    const bool drained = std::ranges::any_of(
        status->fields, [](const StatusField& f) { return f.name == "drained" && f.value == "yes"; });
    if (drained) draining_[from.node].erase(from.role);
  });
}

void Injector::arrange() {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Instant at = Instant{} + faults_[i].at;
    cluster_.host().at(at, [this, i] { strike(i); });
    cluster_.host().at(at + faults_[i].lasts, [this, i] { end(i); });
    if (is_instant(faults_[i].kind)) {
      for (std::int64_t us = again_every.us; us < faults_[i].lasts.us; us += again_every.us)
        cluster_.host().at(at + Duration{us}, [this, i] { strike_again(i); });
      continue;
    }
    for (std::int64_t us = note_every.us; us < faults_[i].lasts.us; us += note_every.us)
      cluster_.host().at(at + Duration{us}, [this] { note_phases(); });
  }
}

// What a fault draws is its own, whatever others there are.
SimRandom Injector::stream_of(const Fault& fault) const {
  return {mix(cluster_.scenario().seed, static_cast<std::uint64_t>(fault.kind),
              static_cast<std::uint64_t>(fault.at.us)),
          41 + fault.node};
}

void Injector::strike(std::size_t index) {
  if (healed_) return;
  const Fault& fault = faults_[index];
  if (trace) trace("fault strikes: " + describe(fault));
  random_ = stream_of(fault);
  ++injected_[static_cast<std::size_t>(fault.kind)];
  active_.insert(index);
  striking_ = index;
  note_phases();
  striking_ = faults_.size();
  apply(fault, true);
}

// Of a fault that is over at once, as long as it lasts.
void Injector::strike_again(std::size_t index) {
  if (healed_ || !active_.contains(index)) return;
  striking_ = index;
  note_phases();
  striking_ = faults_.size();
  apply(faults_[index], true);
}

void Injector::end(std::size_t index) {
  if (active_.erase(index) == 0) return;
  if (trace) trace("fault ends: " + describe(faults_[index]));
  apply(faults_[index], false);
}

void Injector::note_phases() {
  if (active_.empty()) return;
  std::set<std::size_t> kinds;
  for (const std::size_t index : active_)
    if (!is_instant(faults_[index].kind) || index == striking_)
      kinds.insert(static_cast<std::size_t>(faults_[index].kind));
  for (std::size_t phase = 0; phase < phases; ++phase)
    if (cluster_.in_phase(static_cast<Phase>(phase)))
      for (const std::size_t kind : kinds) ++meetings_[kind][phase];
}

std::size_t Injector::active(FaultKind kind, NodeId node) const {
  return static_cast<std::size_t>(std::ranges::count_if(active_, [&](std::size_t index) {
    return faults_[index].kind == kind && (node == 0 || faults_[index].node == node);
  }));
}

double Injector::strongest(FaultKind kind, NodeId node) const {
  double most = 0;
  for (const std::size_t index : active_)
    if (faults_[index].kind == kind && faults_[index].node == node)
      most = std::max(most, faults_[index].intensity);
  return most;
}

void Injector::apply(const Fault& fault, bool on) {
  switch (fault.kind) {
    case FaultKind::kill:
    case FaultKind::wipe:
    case FaultKind::pause:
    case FaultKind::false_alarm:
    case FaultKind::clock_drift:
    case FaultKind::drain:
    case FaultKind::cold_start:
      return set_process(fault, on);
    case FaultKind::isolate:
    case FaultKind::one_way:
    case FaultKind::bridge:
    case FaultKind::delay:
    case FaultKind::loss:
    case FaultKind::doubling:
    case FaultKind::reordering:
    case FaultKind::transfer_reset:
    case FaultKind::transfer_slow:
    case FaultKind::transfer_corruption:
      return set_network(fault, on);
    case FaultKind::coordination_away:
    case FaultKind::coordination_slow:
    case FaultKind::two_leaders:
    case FaultKind::stale_leader:
      return set_coordination(fault, on);
    case FaultKind::disk_full:
    case FaultKind::disk_failing:
    case FaultKind::disk_slow:
    case FaultKind::disk_corrupt:
    case FaultKind::disk_swapped:
      return set_disk(fault, on);
    case FaultKind::device_hang:
    case FaultKind::device_error:
    case FaultKind::device_nan:
    case FaultKind::slow_node:
    case FaultKind::memory_corruption:
    case FaultKind::memory_pressure:
      return set_device(fault, on);
    case FaultKind::model_swap:
    case FaultKind::catalog_swap:
      return set_versions(fault, on);
    default:
      return set_load(fault, on);
  }
}

// ---- the end ----

void Injector::heal() {
  while (!active_.empty()) end(*active_.begin());
  healed_ = true;
  for (auto& [id, node] : cluster_.nodes()) {
    if (node.draining) bring_back(id);
    node.draining = false;
    cluster_.restart(id);
  }
}

}  // namespace troupe::sim
