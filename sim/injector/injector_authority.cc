// Faults of authority: the hard state cannot be reached, leaders who have been succeeded still speak,
// versions change.
#include <algorithm>

#include "sim/injector/injector.h"

namespace troupe::sim {

bool Injector::set_authority(std::size_t index, bool on) {
  const Fault& fault = faults_[index];
  SimCoordination::Faults& faults = cluster_.coordination().faults();
  switch (fault.kind) {
    case FaultKind::coordination_slow:
      faults.slowness = 1 + 100 * strongest(fault.kind, 0);
      faults.answers_lost = 0.4 * strongest(fault.kind, 0);
      return true;
    case FaultKind::coordination_away: {
      faults.away = strongest_fault(fault.kind, 0) != nullptr;
      refresh_cut_off();
      if (fault.node == 0) return true;
      const Node& node = cluster_.node(fault.node);
      return alive(fault.node) && (node.is_router || node.is_cache_meta);  // others never ask
    }
    case FaultKind::two_leaders:
      if (on) return depose(index);
      end_deposed(index);
      return true;
    case FaultKind::stale_leader:
      return on && forge_stale_command();
    case FaultKind::model_load_failing:
      return stop_model_loads(fault, on);
    default:
      return on && change_version(fault.kind);
  }
}

void Injector::refresh_cut_off() {
  std::set<NodeId>& cut_off = cluster_.coordination().faults().cut_off;
  cut_off.clear();
  for (const std::size_t index : active_)
    if (faults_[index].kind == FaultKind::coordination_away && faults_[index].node != 0)
      cut_off.insert(faults_[index].node);
  for (const auto& [index, deposed] : deposed_) cut_off.insert(deposed.leader);
}

// ---- leaders who have been succeeded ----

// The leader's lease runs out in the hard state, and another leads. Weak faults: its clock is so slow that it
// goes on leading, and a router hears of no other leader, so that stale commands are given. Strong ones: what
// it tells workers arrives after its lease. A clock that slow would break the promises of the other actors of
// its node.
bool Injector::depose(std::size_t index) {
  const actors::CacheMetaCore* leader = cluster_.leader();
  Deposed deposed;
  bool heir = false;
  for (const auto& [id, node] : cluster_.nodes()) {
    if (leader && node.cache_meta == leader) deposed.leader = id;
    heir = heir || (node.cache_meta && node.cache_meta != leader);
  }
  if (deposed.leader == 0 || !heir) return false;
  for (const auto& [other, before] : deposed_)
    if (before.leader == deposed.leader) return false;
  const Node& node = cluster_.node(deposed.leader);
  deposed.late = faults_[index].intensity >= 0.5 || node.is_router || node.is_worker;
  if (!deposed.late) deposed.deaf = faults_[index].peer;
  deposed_[index] = deposed;
  if (deposed.deaf != 0) deafen(deposed.deaf, deposed.leader, true);
  refresh_cut_off();
  refresh_clock(deposed.leader);
  refresh_links();
  refresh_writes();
  return true;
}

void Injector::end_deposed(std::size_t index) {
  const auto entry = deposed_.extract(index);
  if (entry.empty()) return;
  const Deposed& deposed = entry.mapped();
  if (deposed.deaf != 0) deafen(deposed.deaf, deposed.leader, false);
  refresh_cut_off();
  refresh_clock(deposed.leader);
  refresh_links();
  refresh_writes();
}

// To all cache-metas but this one.
void Injector::deafen(NodeId router, NodeId leader, bool on) {
  SimNetwork& network = cluster_.host().network();
  for (const auto& [id, node] : cluster_.nodes())
    if (node.is_cache_meta && id != leader) on ? network.cut(id, router) : network.mend(id, router);
}

// From one who led before, also while nobody leads: with a token that is too low, about an owner who has
// blocks.
bool Injector::forge_stale_command() {
  if (last_token_ == 0) return false;
  const NodeId meta = cluster_.scenario().cache_meta(
      static_cast<std::uint32_t>(random_.below(cluster_.scenario().cache_metas)));
  bool any = false;
  for (const auto& [id, node] : cluster_.nodes()) {
    if (!node.kv_worker) continue;
    for (const PoolBlock* block : node.kv_worker->pool().ready_after(0, 4)) {
      any = true;
      cluster_.host().post({id, Role::kv_worker}, {meta, Role::cache_meta},
                           Forget{block->kind, block->owner, last_token_ - 1});
    }
  }
  return any;
}

// ---- versions ----

bool Injector::change_version(FaultKind kind) {
  const Versions now = cluster_.versions();
  const auto pick = [&](auto&& all, const std::string& present) {
    std::vector<std::string> others;
    for (const auto& one : all)
      if (one != present) others.emplace_back(one);
    return others[random_.below(others.size())];
  };
  const auto catalog = [&] { return pick(cluster_.world().options().catalogs, now.catalog_version); };
  if (kind == FaultKind::catalog_swap) {
    clients_.reload("", catalog());
  } else if (kind == FaultKind::model_swap && chance(random_, 0.1)) {
    clients_.reload("no such model", "");
  } else {
    const bool both = chance(random_, 0.5);
    clients_.reload(pick(Cluster::models, now.model_version), both ? catalog() : "");
  }
  return std::ranges::any_of(cluster_.nodes(), [&](const auto& entry) {
    return entry.second.is_router && !entry.second.draining && alive(entry.first);
  });
}

// On its node, and the stronger the fault the likelier on any other; a swap comes with it.
bool Injector::stop_model_loads(const Fault& fault, bool on) {
  for (auto& [id, node] : cluster_.nodes()) {
    node.device.load_fails = false;
    for (const std::size_t index : active_) {
      const Fault& one = faults_[index];
      if (one.kind != fault.kind) continue;
      const double luck = to_unit(mix(cluster_.scenario().seed, static_cast<std::uint64_t>(one.at.us), id));
      if (id == one.node || luck < one.intensity / 2) node.device.load_fails = true;
    }
  }
  return on && alive(fault.node) && change_version(FaultKind::model_swap);
}

}  // namespace troupe::sim
