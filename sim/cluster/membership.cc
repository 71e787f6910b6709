#include "sim/cluster/membership.h"

#include <algorithm>

namespace troupe::sim {
namespace {

constexpr Duration look_every{50'000}, stays_at_least{500'000};

}  // namespace

void Membership::arrange() {
  const Scenario& s = cluster_.scenario();
  if (!s.changes_members()) return;
  cluster_.host().at(Instant{} + s.joins_at, [this] {
    cluster_.join(cluster_.scenario().joiner());
    ++joined_;
  });
  if (s.leaves != 0) cluster_.host().at(Instant{} + s.leaves_at, [this] { begin_leave(); });
}

void Membership::begin_leave() {
  const Scenario& s = cluster_.scenario();
  leaving_ = s.leaves;
  since_ = cluster_.begin_leave(leaving_);
  least_ = cluster_.now() + stays_at_least;
  latest_ = Instant{} + s.warm_up + s.safety + Duration{s.recovery.us / 2};  // nothing is judged by then, but that it is not missed
  see_to_leave();
}

void Membership::see_to_leave() {
  const bool whole = is_drained() && is_handed_on();
  if ((whole && cluster_.now() >= least_) || cluster_.now() >= latest_) return go();
  if (cluster_.host().alive(leaving_))
    cluster_.host().post({leaving_, Role::inference_worker}, operator_, Drain{1, true});
  cluster_.host().at(cluster_.now() + look_every, [this] { see_to_leave(); });
}

bool Membership::is_drained() const {
  const Node& node = cluster_.nodes().at(leaving_);
  return node.inference && node.inference->tasks() == 0;
}

bool Membership::is_handed_on() const {
  bool any = false;
  for (const auto& [id, node] : cluster_.nodes()) {
    if (!node.router) continue;
    any = true;
    if (node.router->members_epoch() < since_ || !node.router->is_handed_on()) return false;
    // It has drained after its last start, and every router has heard so.
    if (node.router->workers().usable(cluster_.host().local_time(id), leaving_, node.router->versions().model_version)) return false;
  }
  return any;
}

void Membership::go() {
  ++left_;
  left_whole_ += is_drained() && is_handed_on();
  cluster_.end_leave(leaving_);
}

void Membership::judge_end() {
  if (!cluster_.scenario().changes_members()) return;
  const std::vector<NodeId> there = nodes_of(cluster_.members().members, cluster_.workers());
  for (const auto& [id, node] : cluster_.nodes())
    if (node.router && node.router->workers().nodes() != there)
      violations_.report(8, "router@" + std::to_string(id) + " knows " + std::to_string(node.router->workers().nodes().size()) + " workers of epoch " +
                                std::to_string(node.router->members_epoch()) + "; there are " + std::to_string(there.size()),
                         cluster_.now());
}

void Membership::add_to(Tally& tally) const {
  tally.joined += joined_;
  tally.left += left_;
  tally.left_whole += left_whole_;
}

}  // namespace troupe::sim
