// Plays the operator who adds a worker to the simulated cluster and removes another while requests
// run.
#include "sim/cluster/membership_operator.h"

#include <algorithm>
#include <set>
#include <string>

namespace troupe::sim {
namespace {

constexpr Duration look_every{50'000}, stays_at_least{500'000};

}  // namespace

void MembershipOperator::schedule_all() {
  const Scenario& s = cluster_.scenario();
  if (!s.changes_members()) return;
  cluster_.host().at(Instant{} + s.joins_at, [this] {
    cluster_.join(cluster_.scenario().joiner());
    ++joined_;
  });
  if (s.leaves != 0) cluster_.host().at(Instant{} + s.leaves_at, [this] { begin_leave(); });
}

void MembershipOperator::begin_leave() {
  const Scenario& s = cluster_.scenario();
  leaving_ = s.leaves;
  since_ = cluster_.begin_leave(leaving_);
  evicted_before_ = evictions();
  began_ = cluster_.now();
  least_ = began_ + stays_at_least;
  // Nothing is judged by then except that the leaving worker is not missed.
  latest_ = Instant{} + s.warm_up + s.safety + Duration{s.recovery.us / 2};
  advance_leave();
}

void MembershipOperator::advance_leave() {
  const bool whole = is_drained() && is_migration_done();
  if ((whole && cluster_.now() >= least_) || cluster_.now() >= latest_) return go();
  if (cluster_.host().alive(leaving_))
    cluster_.host().post({leaving_, Role::inference_worker}, operator_, Drain{1, true});
  if (cluster_.host().alive(leaving_) && is_drained())
    cluster_.host().post({leaving_, Role::kv_worker}, {leaving_, Role::server}, Drain{2, true, staying()});
  cluster_.host().at(cluster_.now() + look_every, [this] { advance_leave(); });
}

bool MembershipOperator::is_drained() const {
  const Node& node = cluster_.nodes().at(leaving_);
  return node.inference && node.inference->tasks() == 0;
}

bool MembershipOperator::is_migration_done() const {
  const Node& leaver = cluster_.nodes().at(leaving_);
  if (!leaver.kv_worker || !leaver.kv_worker->migration().done()) return false;
  bool any = false;
  for (const auto& [id, node] : cluster_.nodes()) {
    if (!node.router) continue;
    any = true;
    if (node.router->members_epoch() < since_ || !node.router->is_migration_done()) return false;
    // The worker has drained after its last start, and every router knows it.
    if (node.router->workers().usable(cluster_.host().local_time(id), leaving_,
                                      node.router->versions().model_version))
      return false;
  }
  return any;
}

std::vector<NodeId> MembershipOperator::staying() {
  const ClusterMembers members = cluster_.members().members;
  std::vector<NodeId> nodes = nodes_of(members, cluster_.workers());
  std::erase_if(nodes, [&](NodeId node) { return members.leaving.contains(node); });
  return nodes;
}

double MembershipOperator::evictions() { return cluster_.metrics().value(Metric::blocks_evicted_user); }

// In an undisturbed run, every user block that a worker reports as migrated is on another node, or was
// evicted there for other blocks.
void MembershipOperator::judge_users() {
  const actors::KvWorkerCore& leaver = *cluster_.nodes().at(leaving_).kv_worker;
  const actors::Migration::Counts& counts = leaver.migration().counts();
  users_migrated_ += counts.migrated;
  users_left_behind_ += counts.left_behind;
  std::set<BlockName> elsewhere;
  for (const auto& [id, node] : cluster_.nodes()) {
    if (id == leaving_ || node.gone || !node.is_worker) continue;
    if (!node.kv_worker || node.disturbed >= began_) return;
    for (const PoolBlock* block : node.kv_worker->pool().last_used(SegmentKind::user))
      elsewhere.insert(block->name);
  }
  std::uint64_t only_here = 0;
  for (const PoolBlock* block : leaver.pool().last_used(SegmentKind::user))
    only_here += !elsewhere.contains(block->name);
  const double evicted = evictions() - evicted_before_;
  if (static_cast<double>(only_here) > static_cast<double>(counts.left_behind) + evicted)
    violations_.report(20,
                       "worker@" + std::to_string(leaving_) + " leaves with " + std::to_string(only_here) +
                           " user blocks that no other node has, but reports " +
                           std::to_string(counts.left_behind) + "; others evicted " +
                           std::to_string(static_cast<std::uint64_t>(evicted)),
                       cluster_.now());
}

void MembershipOperator::go() {
  ++left_;
  const bool whole = is_drained() && is_migration_done();
  left_whole_ += whole;
  if (whole) judge_users();
  cluster_.end_leave(leaving_);
}

void MembershipOperator::judge_end() {
  if (!cluster_.scenario().changes_members()) return;
  const std::vector<NodeId> there = nodes_of(cluster_.members().members, cluster_.workers());
  for (const auto& [id, node] : cluster_.nodes())
    if (node.router && node.router->workers().nodes() != there)
      violations_.report(8,
                         "router@" + std::to_string(id) + " knows " +
                             std::to_string(node.router->workers().nodes().size()) + " workers of epoch " +
                             std::to_string(node.router->members_epoch()) + "; there are " +
                             std::to_string(there.size()),
                         cluster_.now());
}

void MembershipOperator::add_to(Tally& tally) const {
  tally.joined += joined_;
  tally.left += left_;
  tally.left_whole += left_whole_;
  tally.users_handed_on += users_migrated_;
  tally.users_left_behind += users_left_behind_;
}

}  // namespace troupe::sim
