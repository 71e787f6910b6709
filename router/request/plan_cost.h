#pragma once
// What a candidate costs where some of its blocks are missing: the work of its segments by what they see,
// and of its search (placement/cost/plan_work.h), each block's by the share of it that a node lacks. Worked
// out once, asked for each node.
#include <cstddef>
#include <vector>

#include "placement/cost/work.h"
#include "router/request/candidate.h"
#include "router/request/held_blocks.h"

namespace troupe::router {

class PlanCost {
 public:
  // The index is asked for the candidate's blocks one after the other; `first` is the number of its first one
  // there.
  PlanCost(const placement::UnitCosts& costs, const Candidate& candidate, std::size_t first);

  std::size_t first() const { return first_; }
  std::size_t asked() const { return asked_.size(); }  // blocks that the index is asked for
  const placement::Work& nothing_held() const { return nothing_held_; }
  const placement::Work& all_held() const { return all_held_; }
  placement::Work at(NodeId node, const HeldBlocks& held) const;
  // Of the blocks that the index is asked for, the share that a node has, by the work of computing them; 1 if
  // there are none.
  double hit(NodeId node, const HeldBlocks& held) const;
  // Of each of its user's blocks, what finding it spares a worker of that pace.
  std::vector<BlockUse> users_blocks(const Candidate& candidate, const placement::Pace& pace) const;
  // How often, in the mean, blocks of it that nobody keeps yet are expected to be wanted again; 0 if all are
  // kept.
  double uses(const HeldBlocks& held) const;

 private:
  struct Block {
    placement::Work computed, reused;
  };
  std::size_t first_;
  std::vector<Block> asked_;
  placement::Work rest_;  // what is always computed, and what is everybody's
  placement::Work nothing_held_, all_held_;
};

}  // namespace troupe::router
