#pragma once
// The blocks of one plan: which blocks the plan wants, what the KV-cache worker granted, and what
// became of the grants. A want is a block that one or more segments name. Candidates with the same
// tokens are the same block, which is wanted once and computed once.
#include <cstdint>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe::actors {

class PlanBlocks {
 public:
  // Collects the plan's wants, one per name, in the order of its segments. `compute_us` is not set.
  std::vector<BlockWant> collect_wants(const Execute& execute);
  // First segment of each want.
  const std::vector<std::uint32_t>& segments() const { return segment_of_; }

  // Takes the grants, one per want. Returns false, and takes nothing, if their number is wrong.
  bool take_grants(std::vector<BlockGrant>&& grants);
  bool holds_grants() const { return holds_grants_; }  // taken and not yet released
  bool in_flight() const { return in_flight_; }        // some granted block is in flight
  bool is_reused(std::size_t segment) const;
  // Gives up blocks in flight; they are computed.
  void stop_awaiting();
  void release();  // no grant is left

  // Returns what a batch does with each segment's block. Moves the grants' pages into the result.
  // Every block from which a kept block is computed is verified.
  std::vector<BatchSegmentKv> take_kv(const Plan& plan);
  // Returns the outcomes of written, checked and corrupt blocks. `named` has one entry per segment.
  std::vector<BlockOutcome> outcomes(const std::vector<SegmentBlock>& named, const BatchReply& reply) const;

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  std::vector<std::uint32_t> want_of_;     // per segment; none = no block
  std::vector<std::uint32_t> segment_of_;  // per want
  std::vector<BlockGrant> grants_;         // per want; empty = none granted
  bool holds_grants_ = false, in_flight_ = false;
};

}  // namespace troupe::actors
