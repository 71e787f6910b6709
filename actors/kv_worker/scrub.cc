// Chooses which cached blocks are compared with their checksums next, so that a flipped bit in
// memory is found although no request reads the block. The pieces of a round are spread over its
// interval. A slow piece is followed by a longer pause, which bounds the CPU time.
#include "actors/kv_worker/scrub.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "runtime/actor/mutants.h"

namespace troupe::actors {
namespace {

// Minimum pieces per round, so that no piece holds much of a small pool.
constexpr std::uint32_t pieces_min = 64;

}  // namespace

Scrub::Scrub(Config config, std::uint32_t pool_pages) : config_(config) {
  const std::uint64_t of_bytes = config.page_bytes > 0 ? config.piece_bytes / config.page_bytes : pool_pages;
  piece_pages_ = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(of_bytes, 1, std::max(1U, pool_pages / pieces_min)));
  const std::int64_t pieces = (pool_pages + piece_pages_ - 1) / piece_pages_;
  pause_ = {std::max<std::int64_t>(1, config.interval.us / std::max<std::int64_t>(1, pieces))};
}

void Scrub::suspect(std::uint64_t generation) {
  if (suspects_.size() < config_.suspects_max) suspects_.push_back(generation);
}

CheckBlocks Scrub::next(Instant now, PagePool& pool) {
  CheckBlocks work;
  if (!on() || running() || now < due_) return work;
  due_ = now + pause_;
  while (!suspects_.empty() && work.blocks.empty()) {
    if (const PoolBlock* block = pool.hold(suspects_.front())) take(*block, work);
    suspects_.pop_front();
  }
  if (work.blocks.empty()) walk(now, pool, work);
  return work;
}

void Scrub::take(const PoolBlock& block, CheckBlocks& work) {
  work.blocks.push_back({block.generation, block.checksum, block.pages});
  held_.push_back(block.generation);
}

// Leaves blocks that were added after the round began to the next round. Otherwise a stream of new
// blocks could keep the round from ending.
void Scrub::walk(Instant now, PagePool& pool, CheckBlocks& work) {
  if (!walking_) begin_round(now, pool);
  std::uint32_t pages = 0;
  while (pages < piece_pages_) {
    const auto found = pool.ready_after(after_, 1);
    if (found.empty() || found[0]->generation > last_) {
      round_ = now - began_;
      walking_ = false;
      return;
    }
    after_ = found[0]->generation;
    pages += static_cast<std::uint32_t>(found[0]->pages.size());
    if (const PoolBlock* block = pool.hold(after_)) take(*block, work);
  }
}

void Scrub::begin_round(Instant now, const PagePool& pool) {
  walking_ = true;
  began_ = now;
  after_ = 0;
  last_ = pool.last_generation();
}

std::vector<std::uint64_t> Scrub::end(Instant now, const JobResult& result, PagePool& pool) {
  std::vector<std::uint64_t> bad;
  const std::vector<std::uint64_t> held = std::exchange(held_, {});
  const auto* checked = std::get_if<BlockCheckResult>(&result);
  TROUPE_CHECK(!checked || checked->ok.size() == held.size(), "the port answers for each block");
  for (std::size_t i = 0; i < held.size(); ++i) {
    const bool ok = !checked || checked->ok[i] || mutated(Mutant::skip_scrub);
    if (!ok) bad.push_back(held[i]);
    pool.release_hold(held[i]);
  }
  if (checked)
    due_ = std::max(due_, now + Duration{static_cast<std::int64_t>(static_cast<double>(checked->took_us) *
                                                                   (1 / config_.cost - 1))});
  return bad;
}

std::optional<Duration> Scrub::take_round() { return std::exchange(round_, std::nullopt); }

}  // namespace troupe::actors
