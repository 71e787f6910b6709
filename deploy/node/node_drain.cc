// Drains a node's actors and migrates its blocks before the process ends.
#include "deploy/node/node_drain.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::deploy {
namespace {

constexpr std::chrono::milliseconds drain_question{50}, leave_question{500};
constexpr std::chrono::seconds router_start_time{10};

}  // namespace

NodeDrain::NodeDrain(NodeRoles roles, std::vector<std::string> models, Post post, WaitForSignal wait, Now now)
    : roles_(std::move(roles)),
      models_(std::move(models)),
      post_(std::move(post)),
      wait_(std::move(wait)),
      now_(std::move(now)) {}

NodeId NodeDrain::actor_id(NodeId node, std::size_t model) const {
  return ModelActorIds{static_cast<std::uint32_t>(models_.size())}.number(node,
                                                                          static_cast<std::uint32_t>(model));
}

bool NodeDrain::drain_all(Duration limit) {
  const auto end = now_() + std::chrono::microseconds(limit.us);
  const std::pair<bool, Role> order[] = {{roles_.router, Role::router},
                                         {roles_.worker, Role::inference_worker}};
  for (const auto& [is_here, role] : order)
    for (std::size_t model = 0; model < models_.size(); ++model)
      if (is_here && !drain({actor_id(roles_.node, model), role}, models_[model], end)) return false;
  return !roles_.cache_meta || drain({roles_.node, Role::cache_meta}, "", end);
}

// Waits until the actor has drained or `limit` has passed. Returns false if another signal came.
bool NodeDrain::drain(Address actor, const std::string& model, TimePoint limit) {
  while (!reports_.have(actor.role, model) && now_() < limit) {
    post_(actor, Drain{next_++, true});
    if (wait_(drain_question)) return false;
  }
  return true;
}

bool NodeDrain::migrate_blocks(const ClusterView& cluster, const NodeSettings& settings) {
  const TimePoint begin = now_();
  const auto is_past = [this, begin](Duration time) {
    return now_() >= begin + std::chrono::microseconds(time.us);
  };
  bool whole = false;
  while (!(whole = is_migrated(cluster, begin)) || !is_past(settings.leave_time_min)) {
    if (is_past(settings.leave_time_max)) break;
    ask_to_migrate(cluster);
    cluster.report(progress(cluster, begin));
    if (wait_(leave_question)) break;
  }
  return whole;
}

void NodeDrain::ask_to_migrate(const ClusterView& cluster) {
  for (const NodeId router : cluster.staying(NodeRole::router))
    for (std::size_t model = 0; model < models_.size(); ++model)
      post_({actor_id(router, model), Role::router}, StatusRequest{next_++});
  if (!roles_.worker) return;
  std::vector<NodeId> workers = cluster.staying(NodeRole::worker);
  std::erase_if(workers, [&](NodeId node) { return !cluster.is_connected(node); });
  post_({roles_.node, Role::kv_worker}, Drain{next_++, true, std::move(workers)});
}

// For the first 10 s, also awaits routers that are not connected: they may be about to start.
bool NodeDrain::is_awaited(NodeId router, const ClusterView& cluster, TimePoint since) const {
  return now_() < since + router_start_time || cluster.is_connected(router);
}

bool NodeDrain::is_migrated(const ClusterView& cluster, TimePoint since) {
  return (!roles_.worker || reports_.have(Role::kv_worker, "")) && are_items_migrated(cluster, since);
}

bool NodeDrain::are_items_migrated(const ClusterView& cluster, TimePoint since) {
  return reports_.handed_on(cluster.staying(NodeRole::router), models_, cluster.leaves_since(),
                            [&](NodeId router) { return is_awaited(router, cluster, since); });
}

// Returns the routers whose reports decide whether the item blocks are migrated. At least one has to
// report, so where none is awaited it may be any of them.
std::vector<NodeId> NodeDrain::routers_to_report(const ClusterView& cluster, TimePoint since) {
  if (are_items_migrated(cluster, since)) return {};
  const std::vector<NodeId> all = cluster.staying(NodeRole::router);
  std::vector<NodeId> awaited;
  std::ranges::copy_if(all, std::back_inserter(awaited),
                       [&](NodeId router) { return is_awaited(router, cluster, since); });
  return awaited.empty() ? all : awaited;
}

LeaveProgress NodeDrain::progress(const ClusterView& cluster, TimePoint since) {
  const DrainReports::UserBlocks users = reports_.user_blocks();
  LeaveProgress progress{
      .phase = LeaveProgress::Phase::migrates, .user_blocks = users.all, .user_blocks_open = users.open};
  const ModelActorIds ids{static_cast<std::uint32_t>(models_.size())};
  for (const NodeId router : routers_to_report(cluster, since)) {
    for (const std::string& model : models_) {
      const auto report = reports_.report_of(router, model, cluster.leaves_since());
      if (report.migrated) continue;
      LeaveProgress::Router waits{.name = cluster.name_of(router),
                                  .model = model,
                                  .heard = report.heard,
                                  .blocks = report.blocks,
                                  .items = report.items};
      for (const NodeId node : report.awaited) waits.awaited.push_back(cluster.name_of(ids.node_of(node)));
      progress.routers.push_back(std::move(waits));
    }
  }
  return progress;
}

}  // namespace troupe::deploy
