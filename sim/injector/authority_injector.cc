// Injects faults of authority (who may command the cluster): an unreachable coordination store,
// former leaders that still send commands, version changes.
#include "sim/injector/authority_injector.h"

#include <algorithm>
#include <iterator>

namespace troupe::sim {

bool AuthorityInjector::slow_coordination(const FaultChange& change) {
  SimCoordination::Faults& faults = cluster_.coordination().faults();
  faults.slowness = 1 + 100 * change.worst;
  faults.answers_lost = 0.4 * change.worst;
  return true;
}

bool AuthorityInjector::block_coordination(const FaultChange& change) {
  const NodeId asker = change.fault.node;
  refresh_away();
  refresh_cut_off();
  if (asker == 0) return true;
  const Node& node = cluster_.node(asker);
  return cluster_.host().alive(asker) && (node.is_router || node.is_cache_meta);  // other nodes never ask
}

void AuthorityInjector::refresh_away() {
  cluster_.coordination().faults().away =
      faults_.strongest_fault(FaultKind::coordination_away, 0) != nullptr ||
      faults_.count(FaultKind::coordination_emptied) > 0 ||
      faults_.count(FaultKind::coordination_restored) > 0;
}

// The restarted router sees what is left of the data, while workers still follow what was lost.
bool AuthorityInjector::lose_coordination(const FaultChange& change) {
  refresh_away();
  if (change.on) return true;
  SimCoordination& coordination = cluster_.coordination();
  if (change.fault.kind == FaultKind::coordination_restored && coordination.has_copy())
    coordination.go_back_to_copy(cluster_.now());
  else
    coordination.lose_data(cluster_.now());
  processes_.bring_back(change.fault.node);
  return true;
}

void AuthorityInjector::refresh_cut_off() {
  std::set<NodeId>& cut_off = cluster_.coordination().faults().cut_off;
  cut_off.clear();
  faults_.for_each(FaultKind::coordination_away, [&](std::size_t, const Fault& fault) {
    if (fault.node != 0) cut_off.insert(fault.node);
  });
  for (const auto& [index, deposed] : deposed_) cut_off.insert(deposed.leader);
}

// ---- former leaders ----

void AuthorityInjector::note_leader() {
  if (const actors::CacheMetaCore* leader = cluster_.leader()) last_token_ = leader->token();
  if (!cluster_.coordination().has_copy()) cluster_.coordination().keep_copy();
}

bool AuthorityInjector::depose(const FaultChange& change) {
  if (change.on) return depose_leader(change.index);
  end_deposed(change.index);
  return true;
}

// Lets the leader's lease run out in the coordination store, so that another node leads. Weak faults: its
// clock is so slow that it goes on leading, and one router hears of no other leader, so stale commands are
// given. Strong faults: its messages to workers arrive after its lease. A slow clock there would break the
// promises of the other actors on its node.
bool AuthorityInjector::depose_leader(std::size_t index) {
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
  set_deposed(deposed, true);
  return true;
}

void AuthorityInjector::end_deposed(std::size_t index) {
  const auto entry = deposed_.extract(index);
  if (!entry.empty()) set_deposed(entry.mapped(), false);
}

void AuthorityInjector::set_deposed(const DeposedLeader& deposed, bool on) {
  if (deposed.deaf != 0) cut_from_new_leaders(deposed.deaf, deposed.leader, on);
  refresh_cut_off();
  processes_.set_slow_clock(deposed.leader, on && !deposed.late);
  network_.set_late_commands(deposed.leader, on && deposed.late);
  load_.set_deposed_leaders(!deposed_.empty());
}

// Cuts or mends the links from all other cache-metas to the router.
void AuthorityInjector::cut_from_new_leaders(NodeId router, NodeId leader, bool on) {
  SimNetwork& network = cluster_.host().network();
  for (const auto& [id, node] : cluster_.nodes())
    if (node.is_cache_meta && id != leader) on ? network.cut(id, router) : network.mend(id, router);
}

// Sends a command as a former leader, also while nobody leads: with a token that is too low, about an owner
// that has blocks.
bool AuthorityInjector::forge_command(const FaultChange& change) {
  if (!change.on || last_token_ == 0) return false;
  const NodeId meta = cluster_.scenario().cache_meta(
      static_cast<std::uint32_t>(change.random.below(cluster_.scenario().cache_metas)));
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

std::string AuthorityInjector::draw_catalog(RandomStream& random) const {
  return draw_other(random, cluster_.world().options().catalogs, cluster_.versions().catalog_version);
}

bool AuthorityInjector::reload(const std::string& model, const std::string& catalog, double share) {
  clients_.reload(model, catalog, share);
  return std::ranges::any_of(cluster_.nodes(), [&](const auto& entry) {
    return entry.second.is_router && !entry.second.draining && cluster_.host().alive(entry.first);
  });
}

bool AuthorityInjector::swap_catalog(const FaultChange& change) {
  return change.on && reload("", draw_catalog(change.random));
}

bool AuthorityInjector::swap_model(const FaultChange& change) {
  if (!change.on) return false;
  RandomStream& random = change.random;
  if (chance(random, 0.1)) return reload("no such model", "");
  const Versions now = cluster_.versions();
  if (now.is_shared() && chance(random, 0.7))  // raise the share or cancel the rollout
    return reload(chance(random, 0.3) ? now.model_version : now.next_model, "");
  if (chance(random, 0.4)) {
    constexpr double shares[] = {0, 0.05, 0.5, 0.95};
    return reload(draw_other(random, Cluster::models, now.model_version), "",
                  shares[random.below(std::size(shares))]);
  }
  const std::string catalog = chance(random, 0.5) ? draw_catalog(random) : "";
  return reload(draw_other(random, Cluster::models, cluster_.versions().model_version), catalog);
}

// Makes model loads fail on the fault's node, and on any other with a probability that grows with the
// intensity. The fault also starts a model swap.
bool AuthorityInjector::stop_model_loads(const FaultChange& change) {
  for (auto& [id, node] : cluster_.nodes()) {
    node.device.load_fails = false;
    faults_.for_each(change.fault.kind, [&, id = id, &node = node](std::size_t, const Fault& one) {
      const double luck = to_unit(mix(cluster_.scenario().seed, static_cast<std::uint64_t>(one.at.us), id));
      if (id == one.node || luck < one.intensity / 2) node.device.load_fails = true;
    });
  }
  return cluster_.host().alive(change.fault.node) && swap_model(change);
}

}  // namespace troupe::sim
