#include "sim/injector.h"

#include <algorithm>

#include "router/plan.h"

namespace troupe::sim {
namespace {

constexpr NodeId operator_node = 0xD0000000;
const Address operator_address{operator_node, Role::door};
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
  cluster_.host().set_door(operator_address, [this](Address from, Message message) {
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

// ---- processes ----

void Injector::kill(NodeId node) {
  if (!cluster_.host().alive(node)) return;
  cluster_.kill(node);
  clients_.cut_off(node);
}

void Injector::restart(NodeId node) {
  const bool still_down = active(FaultKind::kill, node) + active(FaultKind::wipe, node) > 0;
  if (!still_down) cluster_.restart(node);
}

void Injector::bring_back(NodeId node) {
  kill(node);
  cluster_.restart(node);
}

void Injector::set_process(const Fault& fault, bool on) {
  SimHost& host = cluster_.host();
  switch (fault.kind) {
    case FaultKind::kill:
    case FaultKind::wipe:
      if (!on) return restart(fault.node);
      kill(fault.node);
      if (fault.kind == FaultKind::wipe) cluster_.wipe(fault.node);
      return;
    case FaultKind::pause:
      if (on) return cluster_.pause(fault.node);
      if (active(FaultKind::pause, fault.node) == 0) cluster_.resume(fault.node);
      return;
    case FaultKind::false_alarm:
      if (on && fault.peer != fault.node) host.announce_lost(fault.peer, fault.node);
      return;
    case FaultKind::clock_drift:
      return host.set_clock_rate(fault.node, on ? 0.95 + 0.1 * fault.intensity : 1.0);
    case FaultKind::drain:
      if (on) start_drain(fault);
      return;
    default:  // cold_start
      for (auto& [id, node] : cluster_.nodes()) {
        if (on) kill(id);
        if (!on) restart(id);
      }
  }
}

// ---- network ----

void Injector::cut_halves(NodeId bridge, bool on) {
  SimNetwork& network = cluster_.host().network();
  const NodeId middle = cluster_.scenario().nodes() / 2;
  for (const auto& [a, left] : cluster_.nodes())
    for (const auto& [b, right] : cluster_.nodes()) {
      if (a > middle || b <= middle || a == bridge || b == bridge) continue;
      for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}})
        on ? network.cut(from, to) : network.mend(from, to);
    }
}

// What all active faults together make of the links: those of everywhere change the default, those of a node
// its own.
void Injector::refresh_links() {
  const auto troubled = [&](NodeId node) {
    SimNetwork::Link link = cluster_.scenario().link;
    const auto ppm = [&](FaultKind kind, double most) {
      return static_cast<std::uint32_t>(std::max(strongest(kind, 0), strongest(kind, node)) * most);
    };
    link.lose_ppm = ppm(FaultKind::loss, 300'000);
    link.double_ppm = ppm(FaultKind::doubling, 300'000);
    link.reorder_ppm = ppm(FaultKind::reordering, 500'000);
    const double delay = std::max(strongest(FaultKind::delay, 0), strongest(FaultKind::delay, node));
    link.latency_min.us += static_cast<std::int64_t>(delay * 20'000);
    link.latency_max.us += static_cast<std::int64_t>(delay * 150'000);
    return link;
  };
  SimNetwork& network = cluster_.host().network();
  network.set_default(troubled(0));
  for (const auto& [id, node] : cluster_.nodes())
    for (const auto& [other, peer] : cluster_.nodes())
      if (id != other) network.clear_link(id, other);
  for (const auto& [id, node] : cluster_.nodes()) {
    const bool own = std::ranges::any_of(active_, [&, id = id](std::size_t index) {
      const FaultKind kind = faults_[index].kind;
      return faults_[index].node == id && (kind == FaultKind::loss || kind == FaultKind::doubling ||
                                           kind == FaultKind::reordering || kind == FaultKind::delay);
    });
    if (!own) continue;
    for (const auto& [other, peer] : cluster_.nodes()) {
      if (id == other) continue;
      network.set_link(id, other, troubled(id));
      network.set_link(other, id, troubled(id));
    }
  }
}

void Injector::set_network(const Fault& fault, bool on) {
  SimNetwork& network = cluster_.host().network();
  switch (fault.kind) {
    case FaultKind::isolate:
      return on ? network.isolate(fault.node) : network.rejoin(fault.node);
    case FaultKind::one_way:
      for (const auto& [other, node] : cluster_.nodes())
        if (other != fault.node) on ? network.cut(fault.node, other) : network.mend(fault.node, other);
      return;
    case FaultKind::bridge:
      return cut_halves(fault.peer, on);
    case FaultKind::transfer_reset:
      cluster_.node(fault.node).transfer.reset = strongest(fault.kind, fault.node);
      return;
    case FaultKind::transfer_slow:
      cluster_.node(fault.node).transfer.slowness = 1 + 20'000 * strongest(fault.kind, fault.node);
      return;
    case FaultKind::transfer_corruption:
      cluster_.node(fault.node).transfer.corrupted = strongest(fault.kind, fault.node);
      return;
    default:
      return refresh_links();
  }
}

// ---- hard state ----

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

// ---- disks, devices, memory ----

void Injector::set_disk(const Fault& fault, bool on) {
  SimDisk::Faults& faults = cluster_.node(fault.node).disk->faults();
  switch (fault.kind) {
    case FaultKind::disk_full:
      faults.full = active(fault.kind, fault.node) > 0;
      return;
    case FaultKind::disk_failing:
      faults.failing = active(fault.kind, fault.node) > 0;
      return;
    case FaultKind::disk_slow:
      faults.slowness = 1 + 500 * strongest(fault.kind, fault.node);
      return;
    default:
      if (on) corrupt_disk(fault);
  }
}

void Injector::corrupt_disk(const Fault& fault) {
  SimDisk& disk = *cluster_.node(fault.node).disk;
  const int count = 1 + static_cast<int>(fault.intensity * 20);
  for (int i = 0; i < count; ++i) {
    if (fault.kind == FaultKind::disk_swapped) {
      disk.swap_two(random_);
      continue;
    }
    switch (random_.below(4)) {
      case 0:
        disk.flip_one(random_);
        break;
      case 1:
        disk.forge_one(random_);
        break;
      case 2:
        disk.truncate_one(random_);
        break;
      default:
        disk.revive_one(random_);
    }
  }
}

void Injector::set_device(const Fault& fault, bool on) {
  DeviceFaults& device = cluster_.node(fault.node).device;
  switch (fault.kind) {
    case FaultKind::device_hang:
      device.hung = active(fault.kind, fault.node) > 0;
      if (!on && !device.hung) bring_back(fault.node);  // what hangs hangs until then
      return;
    case FaultKind::device_error:
      device.broken = active(fault.kind, fault.node) > 0;
      return;
    case FaultKind::device_nan:
      device.nan = active(fault.kind, fault.node) > 0;
      return;
    case FaultKind::slow_node:
      device.slowness = active(fault.kind, fault.node) > 0 ? 3 + 17 * strongest(fault.kind, fault.node) : 1;
      return;
    case FaultKind::memory_corruption:
      if (on) corrupt_memory(fault);
      return;
    default:  // memory_pressure
      return squeeze(fault, on);
  }
}

// Only blocks that nobody reads now: a flip under a reader is what the checksum cannot see.
void Injector::corrupt_memory(const Fault& fault) {
  Node& node = cluster_.node(fault.node);
  if (!node.kv_worker) return;
  std::vector<const PoolBlock*> idle;
  for (const PoolBlock* block : node.kv_worker->pool().ready_after(0, 10'000))
    if (block->pins == 0) idle.push_back(block);
  for (int i = 1 + static_cast<int>(fault.intensity * 10); i > 0 && !idle.empty(); --i) {
    const PoolBlock* block = idle[random_.below(idle.size())];
    node.pages->flip(block->pages[random_.below(block->pages.size())], random_.next());
  }
}

void Injector::squeeze(const Fault& fault, bool on) {
  if (!cluster_.node(fault.node).kv_worker) return;
  const Scenario& s = cluster_.scenario();
  const double share = on ? fault.intensity : s.item_share;
  const auto items = static_cast<std::uint64_t>(share * s.pages);
  cluster_.host().post({fault.node, Role::kv_worker}, {fault.node, Role::allocator},
                       SetSplit{cluster_.host().incarnation(fault.node), ++split_epoch_, items,
                                on ? (s.pages - items) / 2 : s.pages - items});
}

// ---- load ----

void Injector::set_load(const Fault& fault, bool on) {
  const Scenario& s = cluster_.scenario();
  switch (fault.kind) {
    case FaultKind::features_slow:
      cluster_.node(fault.node).features.slowness = 1 + 300 * strongest(fault.kind, fault.node);
      return;
    case FaultKind::features_failing:
      cluster_.node(fault.node).features.failing = active(fault.kind, fault.node) > 0;
      return;
    case FaultKind::overload:
      return clients_.set_rate(active(fault.kind) > 0
                                   ? (2 + 8 * strongest(fault.kind, 0)) * s.capacity_per_s / s.requests_per_s
                                   : 1);
    case FaultKind::flash_crowd: {
      const bool crowd = active(fault.kind) > 0;
      const auto first = static_cast<std::uint32_t>(fault.intensity * (s.users - 1));
      cluster_.world().user_flash = {crowd ? 0.8 : 0, first, 1};
      cluster_.world().item_flash = {crowd ? 0.8 : 0, first % s.items, s.candidates + 2};
      return;
    }
    case FaultKind::malformed:
      return clients_.set_malformed(active(fault.kind) > 0 ? 0.5 : 0);
    case FaultKind::profile_storm:
      return clients_.set_writes(active(fault.kind) > 0 ? 0.5 : s.writes_share);
    default:  // poison
      if (on) return start_poison(fault);
      if (active(fault.kind) == 0) cluster_.poisons().clear();
  }
}

// The same content is asked for again and again, once the outcome before it must be there.
void Injector::start_poison(const Fault& fault) {
  const Scenario& s = cluster_.scenario();
  const auto& tenants = cluster_.world().options().tenants;
  const std::string tenant = tenants[random_.below(tenants.size())];
  const std::string user = WorldData::user_id(random_.below(s.users));
  const auto profile = cluster_.world().profile(tenant, user);
  if (!profile) return;
  const router::FittedHistory history = router::fit_history(cluster_.form(), *profile, 64);
  cluster_.poisons().insert(poison_of(history.tokens));
  const RankRequest request = clients_.draw_for(tenant, user);
  const Duration gap{s.deadline.us + 4 * s.heartbeat.us};
  for (std::int64_t us = 0; us == 0 || us < fault.lasts.us; us += gap.us)
    cluster_.host().at(cluster_.now() + Duration{us}, [this, request] {
      if (!healed_) clients_.ask_strange(request);
    });
}

// A content may kill twice; then every router knows it. In a storm routers may lose what they knew, or be cut
// off from those who know.
void Injector::on_poison(NodeId node, std::uint64_t content) {
  if (!cluster_.host().alive(node)) return;
  if (trace) trace("poison kills node " + std::to_string(node));
  const Scenario& s = cluster_.scenario();
  const std::uint32_t most =
      s.drill && !s.together ? 2 : 2 * (s.routers + static_cast<std::uint32_t>(s.faults.size()));
  if (++kills_by_poison_[content] > most)
    violations_.report(12, "one request has killed " + std::to_string(kills_by_poison_[content]) + " workers",
                       cluster_.now());
  kill(node);
  cluster_.host().at(cluster_.now() + Duration{300'000}, [this, node] { restart(node); });
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
    if (chance(random_, 0.1)) return clients_.reload("no such model", "");
    const bool both = chance(random_, 0.5);
    clients_.reload(pick(Cluster::models, now.model_version),
                    both ? pick(cluster_.world().options().catalogs, now.catalog_version) : "");
  } else {
    clients_.reload("", pick(cluster_.world().options().catalogs, now.catalog_version));
  }
}

// ---- drain ----

// An operator's rolling restart: nothing new is sent to the node, it is asked to drain until it says that it
// has, and then restarted.
void Injector::start_drain(const Fault& fault) {
  Node& node = cluster_.node(fault.node);
  if (!cluster_.host().alive(node.id) || node.draining) return;
  node.draining = true;
  std::set<Role>& roles = draining_[node.id];
  if (node.is_router) roles.insert(Role::router);
  if (node.is_cache_meta) roles.insert(Role::cache_meta);
  if (node.is_worker) roles.insert(Role::inference_worker);
  const Instant give_up = cluster_.now() + Duration{3 * cluster_.scenario().deadline.us};
  cluster_.host().at(cluster_.now() + Duration{20'000},
                     [this, id = node.id, give_up] { poll_drain(id, give_up); });
}

// Promise 13: who says "drained" has nothing left; and in a drill everybody gets there.
void Injector::judge_drained(const Node& node) {
  const auto report = [&](const std::string& what) {
    violations_.report(13, "node " + std::to_string(node.id) + " " + what, cluster_.now());
  };
  if (!draining_[node.id].empty()) {
    if (cluster_.scenario().drill) report("has not drained long after every request's deadline");
    return;
  }
  if (node.router && clients_.open_at(node.id) > 0)
    report("says that it is drained, and owes its clients answers");
  if (node.inference && node.inference->tasks() > 0) report("says that it is drained, and has plans left");
}

void Injector::poll_drain(NodeId id, Instant give_up) {
  Node& node = cluster_.node(id);
  if (healed_ || !node.draining) return;
  if (draining_[id].empty() || cluster_.now() >= give_up) {
    judge_drained(node);
    node.draining = false;
    if (trace) trace("node " + std::to_string(id) + " is restarted after its drain");
    return bring_back(id);
  }
  // A command that is still under way when all is healed would meet the new process.
  const Instant calm = Instant{} + cluster_.scenario().warm_up + cluster_.scenario().safety;
  if (cluster_.now() + Duration{20'000} >= calm) return;
  for (const Role role : draining_[id]) cluster_.host().post({id, role}, operator_address, Drain{1, true});
  cluster_.host().at(cluster_.now() + Duration{50'000}, [this, id, give_up] { poll_drain(id, give_up); });
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
