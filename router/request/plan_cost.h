#pragma once
// Computes what a candidate costs when some of its blocks are missing: the work of its segments by
// what they see, plus its search (placement/cost/plan_work.h). Each block counts by the fraction
// that a node lacks. The object is built once and queried per node.
#include <cstddef>
#include <vector>

#include "placement/cost/work.h"
#include "router/request/candidate.h"
#include "router/request/held_blocks.h"

namespace troupe::router {

class PlanCost {
 public:
  // The index is asked for all candidates' blocks in sequence; `first` is the position of this
  // candidate's first one.
  PlanCost(const placement::UnitCosts& costs, const Candidate& candidate, std::size_t first);

  std::size_t first() const { return first_; }
  std::size_t asked() const { return asked_.size(); }  // blocks that the index is asked for
  const placement::Work& nothing_held() const { return nothing_held_; }
  const placement::Work& all_held() const { return all_held_; }
  placement::Work at(NodeId node, const HeldBlocks& held) const;
  // Returns the fraction of those blocks that a node has, weighted by the work to compute them; 1
  // if there are none.
  double hit(NodeId node, const HeldBlocks& held) const;
  // Returns, for each of the user's blocks, the time that a hit saves a worker of that pace.
  std::vector<BlockUse> users_blocks(const Candidate& candidate, const placement::Pace& pace) const;
  // Returns the expected mean number of later uses of the blocks of this kind, user or item, that no
  // node keeps yet; 0 if all are kept.
  double uses(SegmentKind kind, const HeldBlocks& held) const;
  // Returns the work at that node if all blocks of this kind were there, and the others where they
  // are now.
  placement::Work with_held(SegmentKind kind, NodeId node, const HeldBlocks& held) const;

 private:
  struct Block {
    SegmentKind kind = SegmentKind::item;
    placement::Work computed, reused;
    placement::Work at(double missing) const { return computed * missing + reused * (1 - missing); }
  };
  std::size_t first_;
  std::vector<Block> asked_;
  placement::Work rest_;  // work that is always computed, plus the shared blocks
  placement::Work nothing_held_, all_held_;
};

}  // namespace troupe::router
