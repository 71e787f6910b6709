#pragma once
// Tells home workers about requests of their users that ran on other workers. Such a request would
// have used the user's blocks at home if they had been there. A home that never hears of it assumes
// that the user does not return and shrinks its user area, so even more requests are sent elsewhere
// (placement/split/marginal.h). The router therefore attaches recent uses to plans that go to that
// home anyway. The counts are approximate: a lost or dropped entry only makes a curve coarser.
#include <cstddef>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::router {

class UsesElsewhere {
 public:
  static constexpr std::size_t kept_max = 256;  // blocks kept per home; the least recently wanted are dropped
  static constexpr std::size_t report_max = 64;  // blocks reported with one plan

  // Records uses. A block that is wanted again before it was reported counts the number of times.
  void note(NodeId home, std::span<const BlockUse> uses);
  // Returns and removes the least recently wanted uses, to send with a plan for that home.
  std::vector<BlockUse> take(NodeId home);
  void follow(std::span<const NodeId> workers);  // drops the uses of all other homes
  std::size_t kept(NodeId home) const;
  std::size_t homes() const { return uses_.size(); }

 private:
  std::map<NodeId, std::deque<BlockUse>> uses_;  // in order of the last use
};

}  // namespace troupe::router
