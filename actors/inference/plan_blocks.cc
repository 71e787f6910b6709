// Matches a plan's segments with the blocks that the KV-cache worker granted for them, before the
// plan runs and after it.
#include "actors/inference/plan_blocks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/actor/block_name.h"

namespace troupe::actors {
namespace {

// Maps names to the indices of a plan's wants. The table is built once per plan, without an
// allocation per name.
class WantIndex {
 public:
  explicit WantIndex(std::size_t names) : slots_(std::bit_ceil(2 * names + 1), none) {}

  // Returns the want with that name, or wants.size() if there is none yet; the caller then adds it.
  std::uint32_t find_or_add(const BlockName& name, const std::vector<BlockWant>& wants) {
    std::size_t at = BlockNameHash{}(name);
    while (true) {
      std::uint32_t& slot = slots_[at++ & (slots_.size() - 1)];
      if (slot == none) slot = static_cast<std::uint32_t>(wants.size());
      if (slot == wants.size() || wants[slot].name == name) return slot;
    }
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  std::vector<std::uint32_t> slots_;
};

// Verifies every block from which a kept block (one written to the pool) is computed, even if an
// earlier reader verified it. Otherwise a flipped bit in one block would live on in others, whose
// checksums would be right.
void check_sources(const Plan& plan, std::vector<BatchSegmentKv>& kv) {
  std::vector<bool> kept(kv.size());  // segments on which a kept block depends
  for (std::size_t i = kv.size(); i-- > 0;) {
    if (kv[i].grant == Grant::read) {
      kv[i].check = kv[i].check || kept[i];
    } else if (kept[i] || kv[i].grant == Grant::write) {
      for (const std::uint32_t seen : plan.segments[i].sees) kept[seen] = true;
    }
  }
}

}  // namespace

// A segment whose block name only collides with another's is computed.
std::vector<BlockWant> PlanBlocks::collect_wants(const Execute& execute) {
  const std::vector<SegmentBlock>& blocks = execute.blocks;
  std::vector<BlockWant> wants;
  wants.reserve(blocks.size());
  segment_of_.reserve(blocks.size());
  want_of_.assign(blocks.size(), none);
  WantIndex wanted(blocks.size());
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    const SegmentBlock& block = blocks[i];
    if (!block.name) continue;
    const std::uint32_t want = wanted.find_or_add(*block.name, wants);
    const bool fresh = want == wants.size();
    if (!fresh && !identical(wants[want].name, *block.name)) continue;
    want_of_[i] = want;
    if (!fresh) continue;
    const Segment& segment = execute.plan.segments[i];
    const auto tokens = static_cast<std::uint32_t>(segment.tokens.size());
    wants.push_back({*block.name, segment.kind, block.owner, tokens, block.at});
    segment_of_.push_back(i);
  }
  return wants;
}

bool PlanBlocks::take_grants(std::vector<BlockGrant>&& grants) {
  if (grants.size() != segment_of_.size()) return false;
  grants_ = std::move(grants);
  holds_grants_ = true;
  in_flight_ = std::ranges::any_of(grants_, &BlockGrant::in_flight);
  return true;
}

bool PlanBlocks::is_reused(std::size_t segment) const {
  if (grants_.empty() || want_of_[segment] == none) return false;
  return grants_[want_of_[segment]].grant == Grant::read;
}

void PlanBlocks::stop_awaiting() {
  for (BlockGrant& grant : grants_)
    if (grant.in_flight) grant = {};
  in_flight_ = false;
}

void PlanBlocks::release() {
  grants_.clear();
  holds_grants_ = in_flight_ = false;
}

// A block to write is computed by its first segment only; all segments read a block.
std::vector<BatchSegmentKv> PlanBlocks::take_kv(const Plan& plan) {
  std::vector<BatchSegmentKv> kv(plan.segments.size());
  if (grants_.empty()) return kv;
  for (std::uint32_t i = 0; i < kv.size(); ++i) {
    if (want_of_[i] == none) continue;
    BlockGrant& grant = grants_[want_of_[i]];
    const std::uint32_t first = segment_of_[want_of_[i]];
    if (grant.grant == Grant::write && first != i) continue;
    kv[i] = {grant.grant,      grant.checksum, first == i ? std::move(grant.pages) : kv[first].pages,
             grant.generation, grant.check,    grant.in_flight};
  }
  check_sources(plan, kv);
  return kv;
}

std::vector<BlockOutcome> PlanBlocks::outcomes(const std::vector<SegmentBlock>& named,
                                               const BatchReply& reply) const {
  std::vector<BlockOutcome> outcomes;
  for (std::size_t w = 0; w < grants_.size(); ++w) {
    const BlockGrant& grant = grants_[w];
    const std::uint32_t segment = segment_of_[w];
    if (grant.grant == Grant::none) continue;
    const bool corrupt = std::ranges::find(reply.corrupt, segment) != reply.corrupt.end();
    if (grant.grant == Grant::write) {
      outcomes.push_back(
          {*named[segment].name, grant.generation, Outcome::written, reply.checksums.at(segment)});
    } else if (corrupt || grant.check) {
      outcomes.push_back(
          {*named[segment].name, grant.generation, corrupt ? Outcome::corrupt : Outcome::done});
    }
  }
  return outcomes;
}

}  // namespace troupe::actors
