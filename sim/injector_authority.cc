// Faults of authority: the hard state cannot be reached, leaders who have been succeeded, versions that
// change.
#include "sim/injector.h"

namespace troupe::sim {

void Injector::set_coordination(const Fault& fault, bool on) {
  SimCoordination::Faults& faults = cluster_.coordination().faults();
  const auto index = static_cast<std::size_t>(&fault - faults_.data());
  if (fault.kind == FaultKind::coordination_slow) {
    faults.slowness = 1 + 100 * strongest(fault.kind, 0);
    faults.answers_lost = 0.4 * strongest(fault.kind, 0);
  } else if (fault.kind == FaultKind::stale_leader) {
    if (on) forge_stale_command();
  } else if (fault.kind == FaultKind::two_leaders) {
    const actors::CacheMetaCore* leader = cluster_.leader();
    for (const auto& [id, node] : cluster_.nodes())
      if (on && leader && node.cache_meta == leader) led_[index] = id;
    const auto led = led_.find(index);
    if (led == led_.end()) return;
    on ? (void)faults.cut_off.insert(led->second) : (void)faults.cut_off.erase(led->second);
  } else if (fault.node == 0) {
    faults.away = active(fault.kind) > 0 && strongest(fault.kind, 0) > 0;
  } else {
    on ? (void)faults.cut_off.insert(fault.node) : (void)faults.cut_off.erase(fault.node);
  }
}

// From one who led before: with a token that is too low, about an owner who has blocks.
void Injector::forge_stale_command() {
  const actors::CacheMetaCore* leader = cluster_.leader();
  if (!leader || leader->token() == 0) return;
  const NodeId meta = cluster_.scenario().cache_meta(
      static_cast<std::uint32_t>(random_.below(cluster_.scenario().cache_metas)));
  for (const auto& [id, node] : cluster_.nodes()) {
    if (!node.kv_worker) continue;
    for (const PoolBlock* block : node.kv_worker->pool().ready_after(0, 4))
      cluster_.host().post({id, Role::kv_worker}, {meta, Role::cache_meta},
                           Forget{block->kind, block->owner, leader->token() - 1});
  }
}

// ---- versions ----

void Injector::set_versions(const Fault& fault, bool on) {
  if (!on) return;
  const Versions now = cluster_.versions();
  const auto pick = [&](auto&& all, const std::string& present) {
    std::vector<std::string> others;
    for (const auto& one : all)
      if (one != present) others.emplace_back(one);
    return others[random_.below(others.size())];
  };
  if (fault.kind == FaultKind::model_swap) {
    clients_.reload(pick(Cluster::models, now.model_version), "");
  } else {
    clients_.reload("", pick(cluster_.world().options().catalogs, now.catalog_version));
  }
}

}  // namespace troupe::sim
