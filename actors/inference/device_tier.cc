// Book-keeping of the blocks that have a copy in device memory: which are pinned, which are being
// filled, and which are evicted when pages are short. The pool in host memory has all of them, too,
// so a copy may be dropped at any time.
#include "actors/inference/device_tier.h"

#include <algorithm>
#include <set>

#include "kernels/base/check.h"

namespace troupe::actors {
namespace {

// Maximum fraction of the pages for unpinned blocks that were reused. Beyond it the oldest of them
// is demoted to the queue of blocks used once.
constexpr double reused_share = 0.8;

}  // namespace

DeviceTier::DeviceTier(std::uint32_t pages) : pages_(pages) {
  free_.reserve(pages);
  for (std::uint32_t page = pages; page > 0; --page) free_.push_back(page - 1);
}

// Returns true if the existing copy, ready or being filled, is the one wanted.
bool DeviceTier::serves(const Block& block, const Want& want) {
  return !want.write && !block.writes && block.checksum == want.checksum && block.pages.size() == want.pages;
}

DeviceTier::Blocks::iterator DeviceTier::find(std::uint64_t generation) {
  const auto at = found_.find(generation);
  return at == found_.end() ? blocks_.end() : at->second;
}

DeviceTier::Needs DeviceTier::needs_of(std::span<const Want> wants) const {
  Needs needs;
  std::set<std::uint64_t> seen;
  for (const Want& want : wants) {
    if (!seen.insert(want.generation).second) continue;
    needs.all += want.pages;
    const auto at = found_.find(want.generation);
    if (at == found_.end()) {
      needs.missing += want.pages;
      continue;
    }
    const Block& block = *at->second;
    const bool here = serves(block, want);
    if (!here) needs.missing += want.pages;  // its pages are taken back first
    if (!here && block.pins > 0) needs.blocked = true;
    if (here && block.pins == 0) needs.evictable += want.pages;
  }
  return needs;
}

DeviceTier::PinResult DeviceTier::pin(std::span<const Want> wants, std::vector<Pin>& pinned) {
  const Needs needs = needs_of(wants);
  if (needs.all > pages_) return PinResult::never;
  const std::uint64_t available_pages = free_.size() + others_.pages + reused_.pages - needs.evictable;
  if (needs.blocked || needs.missing > available_pages) return PinResult::later;
  const std::size_t first = pinned.size();
  std::set<std::uint64_t> missing;
  // Existing copies first, so that they are not evicted for others.
  for (const Want& want : wants) {
    const auto block = find(want.generation);
    Pin& pin = pinned.emplace_back();
    if (block == blocks_.end() || !serves(*block, want)) continue;
    hold(block);
    pin.block = &*block;
  }
  for (std::size_t i = 0; i < wants.size(); ++i) {
    Pin& pin = pinned[first + i];
    if (pin.block != nullptr) continue;
    pin.fill = missing.insert(wants[i].generation).second;
    const auto block = pin.fill ? add(wants[i]) : find(wants[i].generation);
    hold(block);
    pin.block = &*block;
  }
  return PinResult::enough;
}

void DeviceTier::hold(Blocks::iterator block) {
  if (block->pins == 0 && block->last_use > 0) remove_evictable(block);
  if (block->state == State::ready) block->reused = true;
  ++block->pins;
}

// Drops other bytes of the same generation: only a failed pass can have left them.
DeviceTier::Blocks::iterator DeviceTier::add(const Want& want) {
  if (const auto old = find(want.generation); old != blocks_.end()) forget(old);
  while (free_.size() < want.pages) evict_one();
  Block fresh{want.generation, want.checksum};
  fresh.writes = want.write;
  fresh.pages.assign(free_.rbegin(), free_.rbegin() + want.pages);  // contiguous where possible
  // Holds the block in a separate list until nothing can throw any more.
  Blocks added;
  const auto block = added.insert(added.end(), std::move(fresh));
  found_[want.generation] = block;
  blocks_.splice(blocks_.end(), added);
  free_.resize(free_.size() - want.pages);
  return block;
}

void DeviceTier::fill(Block& block, std::uint64_t checksum) {
  TROUPE_CHECK(block.pins > 0, "a block is pinned while it is filled");
  if (block.state != State::filling) return;  // the device failed meanwhile
  block.state = State::ready;
  block.checksum = checksum;
  block.writes = false;
}

void DeviceTier::fail(Block& block, State why) {
  TROUPE_CHECK(block.pins > 0, "a block is pinned while it is filled");
  if (block.state == State::filling) block.state = why;
  if (block.found) forget(found_.at(block.generation));
}

void DeviceTier::unpin(Block& block) {
  TROUPE_CHECK(block.pins > 0, "a pin that ends exists");
  if (--block.pins > 0) return;
  if (block.found) {
    const auto at = found_.at(block.generation);
    return block.state == State::ready ? add_evictable(at) : forget(at);
  }
  free(std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return &b == &block; }));
}

void DeviceTier::forget_all() {
  for (auto next = blocks_.begin(); next != blocks_.end();) {
    const auto block = next++;
    if (block->state == State::filling) block->state = State::lost;
    if (block->found) forget(block);
  }
}

void DeviceTier::add_evictable(Blocks::iterator block) {
  block->last_use = ++uses_;
  Queue& queue = queue_of(*block);
  queue.blocks[block->last_use] = block;
  queue.pages += block->pages.size();
  while (static_cast<double>(reused_.pages) > reused_share * pages_) {
    const auto oldest = reused_.blocks.begin()->second;
    remove_evictable(oldest);
    oldest->reused = false;
    add_evictable(oldest);
  }
}

void DeviceTier::remove_evictable(Blocks::iterator block) {
  Queue& queue = queue_of(*block);
  TROUPE_CHECK(queue.blocks.erase(block->last_use) == 1, "an unpinned block is evictable");
  queue.pages -= block->pages.size();
}

void DeviceTier::forget(Blocks::iterator block) {
  found_.erase(block->generation);
  block->found = false;
  if (block->pins > 0) return;
  if (block->state == State::ready) remove_evictable(block);
  free(block);
}

void DeviceTier::free(Blocks::iterator block) {
  free_.insert(free_.end(), block->pages.rbegin(), block->pages.rend());
  blocks_.erase(block);
}

void DeviceTier::evict_one() {
  Queue& queue = others_.blocks.empty() ? reused_ : others_;
  TROUPE_CHECK(!queue.blocks.empty(), "the evictable pages were counted before");
  forget(queue.blocks.begin()->second);
  ++evicted_;
}

std::string DeviceTier::check_invariants() const {
  std::vector<std::uint32_t> owners(pages_);
  for (const std::uint32_t page : free_) ++owners.at(page);
  std::uint64_t evictable = 0;
  std::size_t found = 0;
  for (const Block& block : blocks_) {
    for (const std::uint32_t page : block.pages) ++owners.at(page);
    if (block.found) ++found;
    if (block.pins == 0) {
      evictable += block.pages.size();
      if (!block.found || block.state != State::ready)
        return "an unpinned block is not ready or cannot be found";
    }
  }
  for (const std::uint32_t count : owners)
    if (count != 1) return "a page with " + std::to_string(count) + " owners";
  if (evictable != others_.pages + reused_.pages) return "the pages of unpinned blocks are miscounted";
  if (found != found_.size()) return "a block can be found but does not exist";
  if (static_cast<double>(reused_.pages) > reused_share * pages_)
    return "reused blocks have more pages than their limit";
  return "";
}

}  // namespace troupe::actors
