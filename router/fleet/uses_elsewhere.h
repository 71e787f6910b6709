#pragma once
// What the homes of users do not see: a user who is sent to another worker would have wanted his blocks at
// home, had they been there. A home that never hears of it takes him for somebody who does not come, and
// gives the pages of users away, upon which more of them are sent elsewhere (placement/split/marginal.h). So
// a router tells each worker, with plans that go there anyway, which blocks of its users were wanted
// elsewhere lately. It is a count: what is lost, or was too much to keep, only makes a curve coarser.
#include <cstddef>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::router {

class UsesElsewhere {
 public:
  static constexpr std::size_t kept_max =
      256;  // blocks of each worker's users; those that were wanted longest ago go
  static constexpr std::size_t told_max = 64;  // with one plan

  // Of a block that is wanted again before it was told, the number of times.
  void note(NodeId home, std::span<const BlockUse> uses);
  // Those that were wanted longest ago first, for a plan that goes there.
  std::vector<BlockUse> take(NodeId home);
  void follow(std::span<const NodeId> workers);  // nobody else is told anything any more
  std::size_t kept(NodeId home) const;
  std::size_t homes() const { return uses_.size(); }

 private:
  std::map<NodeId, std::deque<BlockUse>> uses_;  // in order of the last use
};

}  // namespace troupe::router
