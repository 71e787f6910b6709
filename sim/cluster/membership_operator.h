#pragma once
// Operator of a run whose membership changes: a worker that no file names joins the cluster, and another
// one leaves. This class plays the leaving node's process like deploy/node: it drains, waits until the
// routers report that its blocks are where they belong without it, removes itself from the members, and
// ends.
#include "sim/cluster/cluster.h"
#include "sim/cluster/tally.h"

namespace troupe::sim {

class MembershipOperator {
 public:
  MembershipOperator(Cluster& cluster, Violations& violations) : cluster_(cluster), violations_(violations) {}

  void schedule_all();
  void judge_end();  // promise 8: every router knows the members long after the last fault
  void add_to(Tally& tally) const;

 private:
  static constexpr Address operator_{0xD0000001, Role::server};

  void begin_leave();
  void advance_leave();
  bool is_drained() const;
  bool is_migration_done() const;
  std::vector<NodeId> staying();
  void judge_users();  // promise 20: blocks reported as migrated must exist elsewhere
  double evictions();  // of user blocks, on all nodes
  void go();

  Cluster& cluster_;
  Violations& violations_;
  NodeId leaving_ = 0;
  Revision since_ = 0;
  Instant began_, least_, latest_;
  std::uint64_t joined_ = 0, left_ = 0, left_whole_ = 0;
  std::uint64_t users_migrated_ = 0, users_left_behind_ = 0;
  double evicted_before_ = 0;
};

}  // namespace troupe::sim
