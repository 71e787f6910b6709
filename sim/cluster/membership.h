#pragma once
// An operator's doings in a run whose scenario says so: a worker that no file names joins the cluster,
// another leaves it. What the process of a node does then is played here, as deploy/box plays it: it drains,
// waits until the routers say that what it has is where it belongs without it, takes itself out of the
// members, and ends.
#include "sim/cluster/cluster.h"
#include "sim/cluster/tally.h"

namespace troupe::sim {

class Membership {
 public:
  Membership(Cluster& cluster, Violations& violations) : cluster_(cluster), violations_(violations) {}

  void arrange();
  void judge_end();  // promise 8: every router knows who is there, long after the last fault
  void add_to(Tally& tally) const;

 private:
  static constexpr Address operator_{0xD0000001, Role::door};

  void begin_leave();
  void see_to_leave();
  bool is_drained() const;
  bool is_handed_on() const;
  std::vector<NodeId> staying();
  void judge_users();  // promise 20: what is said to be handed on is there
  double evictions();  // of users' blocks, of all nodes
  void go();

  Cluster& cluster_;
  Violations& violations_;
  NodeId leaving_ = 0;
  Revision since_ = 0;
  Instant began_, least_, latest_;
  std::uint64_t joined_ = 0, left_ = 0, left_whole_ = 0;
  std::uint64_t users_handed_on_ = 0, users_left_behind_ = 0;
  double evicted_before_ = 0;
};

}  // namespace troupe::sim
