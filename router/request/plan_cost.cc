// Computes the work that a plan still needs on a given node, depending on which of its blocks are
// there. The choice of plan and of worker compares these numbers.
#include "router/request/plan_cost.h"

#include <algorithm>

#include "placement/cost/plan_work.h"

namespace troupe::router {

using placement::Work;

PlanCost::PlanCost(const placement::UnitCosts& costs, const Candidate& candidate, std::size_t first)
    : first_(first) {
  const std::vector<Segment>& segments = candidate.plan.segments;
  const std::vector<std::uint64_t> seen = placement::tokens_seen(candidate.plan);
  const std::vector<std::uint64_t> again = placement::tokens_computed(candidate.plan, costs.layers);
  asked_.reserve(segments.size());
  Work common;  // work to compute the shared blocks
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto tokens = static_cast<double>(segments[i].tokens.size());
    const auto chosen = static_cast<double>(again[i]);
    const Work computed = costs.computed(chosen, static_cast<double>(seen[i]));
    if (!candidate.blocks[i].name) {
      rest_ += computed;
      if (chosen < tokens) rest_ += costs.reused(tokens - chosen);
    } else if (is_asked_for(candidate.blocks[i])) {
      asked_.push_back({segments[i].kind, computed, costs.reused(tokens)});
    } else {
      rest_ += costs.reused(tokens);
      common += computed;
    }
  }
  // A prototype's row is read and written before the pass reads it; finding it costs less than that.
  rest_ += costs.reused(2 * static_cast<double>(placement::prototype_tokens(candidate.plan)));
  rest_ += costs.readouts(static_cast<double>(candidate.plan.readouts.size())) + costs.passes(1);
  if (candidate.plan.search.width > 0) rest_ += costs.of(placement::search_pass(candidate.plan, seen));
  nothing_held_ = rest_ + common;
  all_held_ = rest_;
  for (const Block& one : asked_) {
    nothing_held_ += one.computed;
    all_held_ += one.reused;
  }
}

Work PlanCost::at(NodeId node, const HeldBlocks& held) const {
  Work work = rest_;
  for (std::size_t i = 0; i < asked_.size(); ++i) work += asked_[i].at(held.missing(first_ + i, node));
  return work;
}

double PlanCost::hit(NodeId node, const HeldBlocks& held) const {
  double all = 0, here = 0;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const double operations = asked_[i].computed.operations;
    all += operations;
    if (held.missing(first_ + i, node) == 0) here += operations;
  }
  return all > 0 ? here / all : 1;
}

std::vector<BlockUse> PlanCost::users_blocks(const Candidate& candidate, const placement::Pace& pace) const {
  std::vector<BlockUse> uses;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < candidate.blocks.size(); ++i) {
    if (!is_asked_for(candidate.blocks[i])) continue;
    const Block& block = asked_[asked++];
    const Segment& segment = candidate.plan.segments[i];
    if (segment.kind != SegmentKind::user) continue;
    const double spared_us = std::max(0.0, pace.us(block.computed) - pace.us(block.reused));
    uses.push_back({*candidate.blocks[i].name, static_cast<std::uint32_t>(segment.tokens.size()), 1,
                    static_cast<float>(spared_us)});
  }
  return uses;
}

Work PlanCost::with_held(SegmentKind kind, NodeId node, const HeldBlocks& held) const {
  Work work = rest_;
  for (std::size_t i = 0; i < asked_.size(); ++i)
    work += asked_[i].at(asked_[i].kind == kind ? 0 : held.missing(first_ + i, node));
  return work;
}

double PlanCost::uses(SegmentKind kind, const HeldBlocks& held) const {
  double uses = 0, missing = 0;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    if (asked_[i].kind != kind || held.is_kept(first_ + i)) continue;
    uses += held.uses(first_ + i);
    ++missing;
  }
  return missing > 0 ? uses / missing : 0;
}

}  // namespace troupe::router
