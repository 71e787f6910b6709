// Chooses which cached blocks are compared with their checksums next, so that a flipped bit in
// memory is found although no request reads the block. The pieces of a round are spread over its
// interval. A slow piece is followed by a longer pause, which bounds the CPU time.
#include "actors/kv_worker/scrub.h"

#include <algorithm>
#include <utility>

#include "actors/kv_worker/bounds.h"
#include "kernels/base/check.h"

namespace troupe::actors {
namespace {

// Minimum pieces per round, so that no piece holds much of a small pool.
constexpr std::uint32_t pieces_min = 64;

}  // namespace

Scrub::Scrub(Config config, PagePool& pool, Serials& serials, CorruptBlocks& corrupt)
    : config_(config), pool_(pool), serials_(serials), corrupt_(corrupt) {
  const std::uint32_t pages = pool.pages();
  const std::uint64_t of_bytes = config.page_bytes > 0 ? config.piece_bytes / config.page_bytes : pages;
  piece_pages_ =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(of_bytes, 1, std::max(1U, pages / pieces_min)));
  const std::int64_t pieces = (pages + piece_pages_ - 1) / piece_pages_;
  pause_ = {std::max<std::int64_t>(1, config.interval.us / std::max<std::int64_t>(1, pieces))};
}

void Scrub::suspect(std::uint64_t generation) {
  if (suspects_.size() < config_.suspects_max) suspects_.push_back(generation);
}

void Scrub::advance(Instant now, Effects& effects) {
  const bool is_on = config_.interval.us > 0;
  if (!is_on || job_ != 0 || now < due_) return;
  CheckBlocks work = next(now, effects);
  if (work.blocks.empty()) return effects.set_timer(KvWorkerTimer::scrub, due_);
  effects.start(job_ = serials_.next(), std::move(work));
}

// Holds the blocks of the piece in the pool.
CheckBlocks Scrub::next(Instant now, Effects& effects) {
  CheckBlocks work;
  due_ = now + pause_;
  while (!suspects_.empty() && work.blocks.empty()) {
    if (const PoolBlock* block = pool_.hold(suspects_.front())) take(*block, work);
    suspects_.pop_front();
  }
  if (work.blocks.empty()) walk(now, work, effects);
  return work;
}

void Scrub::take(const PoolBlock& block, CheckBlocks& work) {
  work.blocks.push_back({block.generation, block.checksum, block.pages});
  held_.push_back(block.generation);
}

// Leaves blocks that were added after the round began to the next round. Otherwise a stream of new
// blocks could keep the round from ending.
void Scrub::walk(Instant now, CheckBlocks& work, Effects& effects) {
  if (!walking_) begin_round(now);
  std::uint32_t pages = 0;
  while (pages < piece_pages_) {
    const auto found = pool_.ready_after(after_, 1);
    if (found.empty() || found[0]->generation > last_) {
      const Duration round = now - began_;
      effects.count(Metric::scrub_round_seconds, static_cast<double>(round.us) * 1e-6);
      walking_ = false;
      return;
    }
    after_ = found[0]->generation;
    pages += static_cast<std::uint32_t>(found[0]->pages.size());
    if (const PoolBlock* block = pool_.hold(after_)) take(*block, work);
  }
}

void Scrub::begin_round(Instant now) {
  walking_ = true;
  began_ = now;
  after_ = 0;
  last_ = pool_.last_generation();
}

bool Scrub::on_done(Instant now, const JobDone& done, Effects& effects) {
  if (job_ == 0 || done.job != job_) return false;
  job_ = 0;
  const std::vector<std::uint64_t> bad = end(now, done.result);
  if (const auto* checked = std::get_if<BlockCheckResult>(&done.result))
    effects.count(Metric::blocks_scrubbed, static_cast<double>(checked->ok.size()));
  for (const std::uint64_t generation : bad) {
    const auto found = pool_.ready_after(generation - 1, 1);
    if (!found.empty() && found[0]->generation == generation) corrupt_.quarantine(*found[0], effects);
  }
  effects.set_timer(KvWorkerTimer::scrub, due_);
  return true;
}

// Lets go of all blocks of the job. Returns the generations of corrupt blocks. A refused job says
// nothing about the blocks.
std::vector<std::uint64_t> Scrub::end(Instant now, const JobResult& result) {
  std::vector<std::uint64_t> bad;
  const std::vector<std::uint64_t> held = std::exchange(held_, {});
  const auto* checked = std::get_if<BlockCheckResult>(&result);
  TROUPE_CHECK(!checked || checked->ok.size() == held.size(), "the port answers for each block");
  for (std::size_t i = 0; i < held.size(); ++i) {
    const bool ok = !checked || checked->ok[i];
    if (!ok) bad.push_back(held[i]);
    pool_.release_hold(held[i]);
  }
  if (checked)
    due_ = std::max(due_, now + Duration{static_cast<std::int64_t>(static_cast<double>(checked->took_us) *
                                                                   (1 / config_.cost - 1))});
  return bad;
}

std::string Scrub::check_bounds() const {
  return bound_fault("suspects", suspects_.size(), config_.suspects_max);
}

}  // namespace troupe::actors
