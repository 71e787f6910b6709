#pragma once
// State of one running pull on the reader's side: what to request next, what has arrived, and how
// it ends. Only `land` writes destination pages, and only until the end. The end is set under the
// same lock, so nothing is written after it, whatever is still in flight. `land` also sums up the
// bytes once all earlier ones have arrived: they are still in the cache, and no checksum is left to
// compute after the last piece.
//
// Work in parts transfers the first part of every page, then the second, and so on, and reports
// each to the arena's PageArrivals. Checksums cover whole pages in order, so they are then computed
// at the end.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/transfer/pull_wire.h"

namespace troupe {

// Returns an unavailable refusal about `node`; `what` continues the sentence, as in "cannot be read".
Refusal pull_refused(std::string code, NodeId node, const std::string& what, std::string expected);

// Thread-safe.
class IncomingPull {
 public:
  using Clock = std::chrono::steady_clock;
  // Limit of data that is requested but not yet summed up. It bounds what a piece that fills a gap
  // has to sum up while all others wait. Data that waits in network buffers leaves the CPU caches
  // and is then read at memory speed, which takes twice the time for 16 MiB.
  static constexpr std::size_t window = 4;  // chunks
  // Maximum for work in parts, whose chunks are smaller.
  static constexpr std::size_t window_of_parts = 32;
  static constexpr std::size_t parts_max = 1'024;
  // Bytes per chunk; one page may be more.
  static constexpr std::size_t asked_bytes = std::size_t{256} << 10;

  // Returns what is wrong with the work on this side. The constructor requires valid work.
  static std::optional<Refusal> reject_if_invalid(const PullBlocks& work, const PageArena& arena);
  IncomingPull(std::uint64_t id, const PullBlocks& work, PageArena& arena);

  std::uint64_t id() const { return id_; }
  NodeId node() const { return node_; }
  Incarnation incarnation() const { return incarnation_; }

  // Returns the next request to send. Returns nullopt while the window (which starts at the first
  // incomplete chunk) is full, after the last request, and after the end.
  std::optional<PullRequest> next_request();

  enum class PieceResult : std::uint8_t {
    piece,      // written
    chunk,      // written, and its chunk is complete: there may be a next request
    late,       // dropped: the pull has ended
    malformed,  // dropped: not requested, already received, or of another size
  };
  PieceResult land(const PullReply& reply, std::span<const std::uint8_t> bytes);

  // Ends the pull and wakes waiting threads; only the first end counts.
  void end(Refusal refusal);
  bool ended() const;
  // Calls `notify` once, as soon as the pull has ended with a refusal. It must not call this object.
  void on_end(std::function<void()> notify);

  Clock::time_point deadline() const { return deadline_; }
  bool has_all() const;  // true if all blocks have arrived
  // Waits until block `index` and those before it have arrived or the pull has ended; ends it at the
  // deadline. One thread waits at a time, and is woken once, however many blocks arrive before.
  std::optional<Refusal> await(std::size_t index);
  std::size_t awaited() const;  // index of the block that is or was last waited for
  std::size_t wakes() const;    // number of times that an arrival has woken the waiting thread
  // Returns the checksum of the block's pages here. Only for a block that was awaited and has
  // arrived.
  std::uint64_t checksum(std::size_t index) const;

 private:
  struct Chunk {
    std::size_t begin = 0, end = 0;  // indices into from_ and to_
    std::size_t part = 0;
    std::vector<bool> landed;  // by piece; empty until the chunk is requested
    std::size_t missing = 0;   // pieces not yet landed, once it is requested
  };
  std::size_t page_bytes_of(const Chunk& chunk) const {  // bytes of each page
    return std::min(part_bytes_, arena_.page_bytes() - chunk.part * part_bytes_);
  }
  std::size_t bytes_of(const Chunk& chunk) const { return (chunk.end - chunk.begin) * page_bytes_of(chunk); }
  bool in_parts() const { return part_bytes_ < arena_.page_bytes(); }
  std::size_t blocks_here() const;
  void note_parts();
  void end_locked(Refusal refusal);
  Refusal refusal_of(PullStatus status) const;
  std::vector<PagePart> parts(const Chunk& chunk, std::size_t piece) const;
  void write(const Chunk& chunk, std::size_t piece, const std::uint8_t* from);
  void sum_up();
  void wake(std::size_t blocks);

  const std::uint64_t id_;
  const NodeId node_;
  const Incarnation incarnation_;
  const Clock::time_point deadline_;
  PageArena& arena_;
  const std::size_t part_bytes_;
  std::vector<std::uint64_t> names_;      // block generations in PageArrivals, for work in parts
  std::vector<std::uint32_t> from_, to_;  // pages of all blocks, one after the other
  std::vector<std::size_t> block_ends_;   // in from_ and to_

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Chunk> chunks_;
  std::size_t window_ = window;
  std::size_t requested_ = 0, done_ = 0;  // chunks
  // Everything before them is in sum_ or sums_.
  std::size_t sum_chunk_ = 0, sum_piece_ = 0, sum_pages_ = 0;
  PageSum sum_;
  std::vector<std::uint64_t> sums_;  // checksums of the blocks that have arrived, in order
  std::optional<Refusal> refusal_;
  std::function<void()> on_end_;  // called at the first refusal
  std::size_t awaited_ = 0;       // index of the block for which a thread waits
  std::size_t wakes_ = 0;
};

}  // namespace troupe
