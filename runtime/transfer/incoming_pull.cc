// State of one pull, the copying of blocks' pages from another node: which requests come next,
// where arrived bytes are written, and how it ends. Most checksums are computed as bytes arrive;
// nothing is written after the end.
#include "runtime/transfer/incoming_pull.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe {
namespace {

// Upper bound of leases; larger numbers would overflow the clock.
constexpr std::int64_t budget_us_max = 3'600'000'000;

// Returns the bytes of a page that are requested at a time: a multiple of a cache line, so that the
// reader of one part and the writer of the next share no line.
std::size_t part_of(std::size_t page_bytes, std::size_t parts) {
  constexpr std::size_t line = 64;
  if (parts <= 1) return page_bytes;
  return std::min(page_bytes, std::max(line, (page_bytes / parts + line - 1) / line * line));
}

}  // namespace

Refusal pull_refused(std::string code, NodeId node, const std::string& what, std::string expected) {
  return {RefusalKind::unavailable, std::move(code), "node " + std::to_string(node) + " " + what,
          "transfer of pages", std::move(expected)};
}

std::optional<Refusal> IncomingPull::reject_if_invalid(const PullBlocks& work, const PageArena& arena) {
  const auto ours = [&](std::uint32_t page) { return page < arena.pages(); };
  const bool good = work.parts <= parts_max &&
                    std::all_of(work.blocks.begin(), work.blocks.end(), [&](const PullBlocks::One& one) {
                      return one.from.size() == one.to.size() && !one.to.empty() &&
                             std::all_of(one.to.begin(), one.to.end(), ours);
                    });
  if (good && arena.page_bytes() > 0) return std::nullopt;
  return Refusal{RefusalKind::internal, "bad_pages",
                 "a page outside the arena, no page, or unequal numbers of pages", "transfer of pages",
                 "pages of 0.." + std::to_string(arena.pages())};
}

IncomingPull::IncomingPull(std::uint64_t id, const PullBlocks& work, PageArena& arena)
    : id_(id),
      node_(work.node),
      incarnation_(work.incarnation),
      deadline_(Clock::now() +
                std::chrono::microseconds(std::clamp<std::int64_t>(work.budget_us, 0, budget_us_max))),
      arena_(arena),
      part_bytes_(part_of(arena.page_bytes(), work.parts)) {
  for (const PullBlocks::One& one : work.blocks) {
    if (work.parts > 1) names_.push_back(one.here);
    from_.insert(from_.end(), one.from.begin(), one.from.end());
    to_.insert(to_.end(), one.to.begin(), one.to.end());
    block_ends_.push_back(to_.size());
  }
  const std::size_t pages = std::clamp<std::size_t>(asked_bytes / part_bytes_, 1, request_pages_max);
  const std::size_t usual =
      std::clamp<std::size_t>(std::min(pages, from_.size()) * part_bytes_, 1, asked_bytes);
  if (in_parts()) window_ = std::min(window * asked_bytes / usual, window_of_parts);
  for (std::size_t part = 0; part * part_bytes_ < arena.page_bytes(); ++part)
    for (std::size_t begin = 0; begin < from_.size(); begin += pages)
      chunks_.push_back({begin, std::min(begin + pages, from_.size()), part, {}});
}

std::optional<PullRequest> IncomingPull::next_request() {
  std::lock_guard lock(mutex_);
  if (refusal_ || requested_ == chunks_.size() || requested_ - sum_chunk_ >= window_) return std::nullopt;
  if (Clock::now() >= deadline_) return std::nullopt;
  Chunk& chunk = chunks_[requested_];
  chunk.missing = pieces_of(bytes_of(chunk));
  chunk.landed.assign(chunk.missing, false);
  const auto at = [&](std::size_t i) { return from_.begin() + static_cast<std::ptrdiff_t>(i); };
  return PullRequest{incarnation_,
                     id_,
                     static_cast<std::uint32_t>(requested_++),
                     arena_.page_bytes(),
                     {at(chunk.begin), at(chunk.end)},
                     chunk.part * part_bytes_,
                     in_parts() ? page_bytes_of(chunk) : 0};
}

IncomingPull::PieceResult IncomingPull::land(const PullReply& reply, std::span<const std::uint8_t> bytes) {
  std::lock_guard lock(mutex_);
  if (refusal_) return PieceResult::late;
  if (reply.chunk >= requested_) return PieceResult::malformed;
  Chunk& chunk = chunks_[reply.chunk];
  if (chunk.missing == 0) return PieceResult::malformed;
  if (reply.status != PullStatus::sent) {
    end_locked(refusal_of(reply.status));
    return PieceResult::late;
  }
  if (reply.piece >= chunk.landed.size() || chunk.landed[reply.piece]) return PieceResult::malformed;
  const std::size_t begin = reply.piece * piece_bytes;
  if (bytes.size() != std::min(piece_bytes, bytes_of(chunk) - begin)) return PieceResult::malformed;
  write(chunk, reply.piece, bytes.data());
  chunk.landed[reply.piece] = true;
  in_parts() ? note_parts() : sum_up();
  if (--chunk.missing > 0) return PieceResult::piece;
  ++done_;
  return PieceResult::chunk;
}

std::vector<PagePart> IncomingPull::parts(const Chunk& chunk, std::size_t piece) const {
  const auto pages = std::span(to_).subspan(chunk.begin, chunk.end - chunk.begin);
  const std::size_t begin = piece * piece_bytes;
  return parts_of(pages, page_bytes_of(chunk), begin, std::min(piece_bytes, bytes_of(chunk) - begin),
                  chunk.part * part_bytes_);
}

void IncomingPull::write(const Chunk& chunk, std::size_t piece, const std::uint8_t* from) {
  for (const PagePart& part : parts(chunk, piece)) {
    std::memcpy(arena_.page(part.page) + part.offset, from, part.bytes);
    from += part.bytes;
  }
}

// Wakes the waiting thread if its block is among the first `blocks`, which have arrived. Waking it for
// each of many small blocks would cost more than their copy.
void IncomingPull::wake(std::size_t blocks) {
  if (blocks <= awaited_) return;
  ++wakes_;
  changed_.notify_all();
}

// Sums up pieces in order; a piece that arrived early waits.
void IncomingPull::sum_up() {
  const std::size_t before = sums_.size();
  while (sum_chunk_ < requested_ && chunks_[sum_chunk_].landed[sum_piece_]) {
    const Chunk& chunk = chunks_[sum_chunk_];
    for (const PagePart& part : parts(chunk, sum_piece_)) {
      sum_.add(arena_.page(part.page) + part.offset, part.bytes);
      if (part.offset + part.bytes < arena_.page_bytes() || ++sum_pages_ < block_ends_[sums_.size()])
        continue;
      sums_.push_back(sum_.take());
    }
    if (++sum_piece_ < chunk.landed.size()) continue;
    ++sum_chunk_;
    sum_piece_ = 0;
  }
  if (sums_.size() > before) wake(sums_.size());
}

// Counts complete chunks without a gap; a part has arrived when its last chunk is complete.
void IncomingPull::note_parts() {
  while (sum_chunk_ < requested_ && chunks_[sum_chunk_].landed[sum_piece_]) {
    const Chunk& chunk = chunks_[sum_chunk_];
    if (++sum_piece_ < chunk.landed.size()) continue;
    if (chunk.end == to_.size())
      arena_.arrivals().advance(names_, chunk.part * part_bytes_ + page_bytes_of(chunk));
    ++sum_chunk_;
    sum_piece_ = 0;
  }
  if (sum_chunk_ == chunks_.size()) wake(block_ends_.size());
}

std::size_t IncomingPull::blocks_here() const {
  if (!in_parts()) return sums_.size();
  return sum_chunk_ == chunks_.size() ? block_ends_.size() : 0;
}

void IncomingPull::end(Refusal refusal) {
  std::lock_guard lock(mutex_);
  end_locked(std::move(refusal));
}

void IncomingPull::end_locked(Refusal refusal) {
  if (!refusal_) refusal_ = std::move(refusal);
  changed_.notify_all();
  if (const auto notify = std::exchange(on_end_, nullptr)) notify();
}

void IncomingPull::on_end(std::function<void()> notify) {
  std::lock_guard lock(mutex_);
  refusal_ ? notify() : void(on_end_ = std::move(notify));
}

bool IncomingPull::ended() const {
  std::lock_guard lock(mutex_);
  return refusal_.has_value();
}

bool IncomingPull::has_all() const {
  std::lock_guard lock(mutex_);
  return blocks_here() == block_ends_.size();
}

std::optional<Refusal> IncomingPull::await(std::size_t index) {
  std::unique_lock lock(mutex_);
  awaited_ = index;
  const bool in_time =
      changed_.wait_until(lock, deadline_, [&] { return refusal_ || blocks_here() > index; });
  if (!in_time)
    end_locked(pull_refused(
        "transfer_timeout", node_,
        "has sent " + std::to_string(done_) + " of " + std::to_string(chunks_.size()) + " parts in time",
        "all of them before the lease ends"));
  return refusal_;
}

std::size_t IncomingPull::awaited() const {
  std::lock_guard lock(mutex_);
  return awaited_;
}

std::size_t IncomingPull::wakes() const {
  std::lock_guard lock(mutex_);
  return wakes_;
}

std::uint64_t IncomingPull::checksum(std::size_t index) const {
  if (in_parts()) {  // nobody writes any more
    const std::size_t begin = index == 0 ? 0 : block_ends_[index - 1];
    return checksum_pages(arena_, std::span(to_).subspan(begin, block_ends_[index] - begin));
  }
  std::lock_guard lock(mutex_);
  return sums_[index];
}

Refusal IncomingPull::refusal_of(PullStatus status) const {
  switch (status) {
    case PullStatus::wrong_incarnation:
      return pull_refused("wrong_incarnation", node_, "runs in another incarnation",
                          "incarnation " + std::to_string(incarnation_));
    case PullStatus::wrong_page_bytes:
      return pull_refused("wrong_page_bytes", node_, "has pages of another size",
                          "pages of " + std::to_string(arena_.page_bytes()) + " bytes on all nodes");
    case PullStatus::bad_pages:
      return pull_refused("bad_pages", node_, "does not have a requested page", "pages that it has granted");
    default:
      return pull_refused("peer_overloaded", node_, "has too many replies to send already", "a later try");
  }
}

}  // namespace troupe
