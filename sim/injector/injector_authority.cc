// Injects faults of authority (who may command the cluster): an unreachable coordination store,
// former leaders that still send commands, version changes.
#include <algorithm>
#include <iterator>

#include "sim/injector/injector.h"

namespace troupe::sim {

bool Injector::slow_coordination(const FaultChange& change) {
  SimCoordination::Faults& faults = cluster_.coordination().faults();
  faults.slowness = 1 + 100 * change.worst;
  faults.answers_lost = 0.4 * change.worst;
  return true;
}

bool Injector::block_coordination(const FaultChange& change) {
  const NodeId asker = change.fault.node;
  cluster_.coordination().faults().away = strongest_fault(change.fault.kind, 0) != nullptr;
  refresh_cut_off();
  if (asker == 0) return true;
  const Node& node = cluster_.node(asker);
  return alive(asker) && (node.is_router || node.is_cache_meta);  // other nodes never ask
}

void Injector::refresh_cut_off() {
  std::set<NodeId>& cut_off = cluster_.coordination().faults().cut_off;
  cut_off.clear();
  for (const std::size_t index : active_)
    if (faults_[index].kind == FaultKind::coordination_away && faults_[index].node != 0)
      cut_off.insert(faults_[index].node);
  for (const auto& [index, deposed] : deposed_) cut_off.insert(deposed.leader);
}

// ---- former leaders ----

bool Injector::depose(const FaultChange& change) {
  if (change.on) return depose_leader(change.index);
  end_deposed(change.index);
  return true;
}

// Lets the leader's lease run out in the coordination store, so that another node leads. Weak faults: its
// clock is so slow that it goes on leading, and one router hears of no other leader, so stale commands are
// given. Strong faults: its messages to workers arrive after its lease. A slow clock there would break the
// promises of the other actors on its node.
bool Injector::depose_leader(std::size_t index) {
  const actors::CacheMetaCore* leader = cluster_.leader();
  DeposedLeader deposed;
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
  if (deposed.deaf != 0) cut_from_new_leaders(deposed.deaf, deposed.leader, true);
  refresh_cut_off();
  refresh_clock(deposed.leader);
  refresh_links();
  refresh_writes();
  return true;
}

void Injector::end_deposed(std::size_t index) {
  const auto entry = deposed_.extract(index);
  if (entry.empty()) return;
  const DeposedLeader& deposed = entry.mapped();
  if (deposed.deaf != 0) cut_from_new_leaders(deposed.deaf, deposed.leader, false);
  refresh_cut_off();
  refresh_clock(deposed.leader);
  refresh_links();
  refresh_writes();
}

// Cuts or mends the links from all other cache-metas to the router.
void Injector::cut_from_new_leaders(NodeId router, NodeId leader, bool on) {
  SimNetwork& network = cluster_.host().network();
  for (const auto& [id, node] : cluster_.nodes())
    if (node.is_cache_meta && id != leader) on ? network.cut(id, router) : network.mend(id, router);
}

// Sends a command as a former leader, also while nobody leads: with a token that is too low, about an owner
// that has blocks.
bool Injector::forge_command(const FaultChange& change) {
  if (!change.on || last_token_ == 0) return false;
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

namespace {

std::string draw_other(RandomStream& random, const auto& all, const std::string& present) {
  std::vector<std::string> others;
  for (const auto& one : all)
    if (one != present) others.emplace_back(one);
  return others[random.below(others.size())];
}

}  // namespace

std::string Injector::draw_catalog() {
  return draw_other(random_, cluster_.world().options().catalogs, cluster_.versions().catalog_version);
}

bool Injector::reload(const std::string& model, const std::string& catalog, double share) {
  clients_.reload(model, catalog, share);
  return std::ranges::any_of(cluster_.nodes(), [&](const auto& entry) {
    return entry.second.is_router && !entry.second.draining && alive(entry.first);
  });
}

bool Injector::swap_catalog(const FaultChange& change) { return change.on && reload("", draw_catalog()); }

bool Injector::swap_model(const FaultChange& change) {
  if (!change.on) return false;
  if (chance(random_, 0.1)) return reload("no such model", "");
  const Versions now = cluster_.versions();
  if (now.is_shared() && chance(random_, 0.7))  // raise the share or cancel the rollout
    return reload(chance(random_, 0.3) ? now.model_version : now.next_model, "");
  if (chance(random_, 0.4)) {
    constexpr double shares[] = {0, 0.05, 0.5, 0.95};
    return reload(draw_other(random_, Cluster::models, now.model_version), "",
                  shares[random_.below(std::size(shares))]);
  }
  const std::string catalog = chance(random_, 0.5) ? draw_catalog() : "";
  return reload(draw_other(random_, Cluster::models, cluster_.versions().model_version), catalog);
}

// Makes model loads fail on the fault's node, and on any other with a probability that grows with the
// intensity. The fault also starts a model swap.
bool Injector::stop_model_loads(const FaultChange& change) {
  for (auto& [id, node] : cluster_.nodes()) {
    node.device.load_fails = false;
    for (const std::size_t index : active_) {
      const Fault& one = faults_[index];
      if (one.kind != change.fault.kind) continue;
      const double luck = to_unit(mix(cluster_.scenario().seed, static_cast<std::uint64_t>(one.at.us), id));
      if (id == one.node || luck < one.intensity / 2) node.device.load_fails = true;
    }
  }
  return alive(change.fault.node) && swap_model(change);
}

}  // namespace troupe::sim
