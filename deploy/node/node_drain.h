#pragma once
// Ends the work of a node that stops: its actors finish what they have and, if the node leaves its
// cluster for good, its blocks are migrated. Asks the actors again and again until they report that
// they are done, until a limit has passed, or until another signal arrives.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "deploy/node/drain_reports.h"
#include "deploy/node/leave_progress.h"
#include "deploy/node/node_roles.h"
#include "runtime/actor/model_actor_ids.h"
#include "runtime/config/settings.h"

namespace troupe::deploy {

class NodeDrain {
 public:
  using Post = std::function<void(Address to, Message message)>;
  // Waits for the time; true if a signal arrived that asks for an immediate end.
  using WaitForSignal = std::function<bool(std::chrono::microseconds)>;

  using TimePoint = std::chrono::steady_clock::time_point;
  using Now = std::function<TimePoint()>;

  // `models` are the names of the node's models, in their order; {""} for an unnamed one.
  NodeDrain(NodeRoles roles, std::vector<std::string> models, Post post, WaitForSignal wait,
            Now now = std::chrono::steady_clock::now);

  // Takes a reply of an actor; false: it belongs to someone else. Called by the host's threads.
  bool take(const Message& reply) { return reports_.take(reply); }

  // Drains the roles one after the other: the router's running requests need the worker, and both
  // need the leading cache-meta. Returns false if another signal came.
  bool drain_all(Duration limit);

  // View of the cluster from the leaving node, asked anew each time.
  struct ClusterView {
    std::function<std::vector<NodeId>(NodeRole)> staying;  // members that neither leave nor are this node
    std::function<bool(NodeId)> is_connected;
    std::function<Revision()> leaves_since;  // revision of the members at which this node began to leave
    std::function<std::string(NodeId)> name_of;
    std::function<void(const LeaveProgress&)> report;
  };
  // Migrates this node's blocks: routers copy item blocks to their new workers, and the KV-cache
  // worker offers user blocks to the users' new homes. Reports what is waited for each time that it asks
  // them. Returns true if all are migrated; another signal ends the wait.
  bool migrate_blocks(const ClusterView& cluster, const NodeSettings& settings);

 private:
  bool drain(Address actor, const std::string& model, TimePoint limit);
  void ask_to_migrate(const ClusterView& cluster);
  bool is_awaited(NodeId router, const ClusterView& cluster, TimePoint since) const;
  bool are_items_migrated(const ClusterView& cluster, TimePoint since);
  bool is_migrated(const ClusterView& cluster, TimePoint since);
  std::vector<NodeId> routers_to_report(const ClusterView& cluster, TimePoint since);
  LeaveProgress progress(const ClusterView& cluster, TimePoint since);
  NodeId actor_id(NodeId node, std::size_t model) const;

  const NodeRoles roles_;
  const std::vector<std::string> models_;
  const Post post_;
  const WaitForSignal wait_;
  const Now now_;
  DrainReports reports_;
  RequestId next_ = first_own_id;
};

}  // namespace troupe::deploy
