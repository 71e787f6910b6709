#pragma once
// One running pull, seen from the reader: what is still to be asked for, what has come, and how it ends. Only
// `land` writes destination pages, and only until the end: the end is said under the same lock, so nothing is
// written after it, whatever is still on its way. It also sums them up, as soon as all before them are here:
// what was just written is still in the cache, and when the last piece has come, there is no sum to wait for.
//
// Of work in parts the first parts of all pages come first, and so on; the arena's PageArrivals are told of
// each. Its sums are of whole pages in order, and so are made at the end.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/transfer/pull_wire.h"

namespace troupe {

// "cannot be read" and the like, said of a node.
Refusal pull_refused(std::string code, NodeId node, const std::string& what, std::string expected);

// Thread-safe.
class IncomingPull {
 public:
  using Clock = std::chrono::steady_clock;
  // So much is asked for and not summed up yet, so that no piece that fills a gap has more to sum up than
  // this behind it, while all others wait. What waits in the buffers of the network for its reader falls out
  // of the caches, and is then moved at the speed of memory: twice the time for 16 MiB.
  static constexpr std::size_t window = 4;            // chunks
  static constexpr std::size_t window_of_parts = 32;  // at most, of work in parts, whose chunks are smaller
  static constexpr std::size_t parts_max = 1'024;
  static constexpr std::size_t asked_bytes = std::size_t{256} << 10;  // of a chunk; one page may be more

  // What is wrong with it, seen from here; the constructor wants work that is well.
  static std::optional<Refusal> fault_of(const PullBlocks& work, const PageArena& arena);
  IncomingPull(std::uint64_t id, const PullBlocks& work, PageArena& arena);

  std::uint64_t id() const { return id_; }
  NodeId node() const { return node_; }
  Incarnation incarnation() const { return incarnation_; }

  // The next one to send; none while the window, from the first chunk that is not complete on, is full, after
  // the last one, and after the end.
  std::optional<PullRequest> next_request();

  enum class Landed : std::uint8_t {
    piece,   // written
    chunk,   // written, and its chunk is complete: there may be a next request
    late,    // dropped: it has ended
    absurd,  // dropped: it was not asked for, came before, or has another size
  };
  Landed land(const PullReply& reply, std::span<const std::uint8_t> bytes);

  // The first end counts. With it, whoever waits goes on.
  void end(Refusal refusal);
  bool ended() const;

  // Waits until block `index` is here or the pull has ended; at the deadline this ends it.
  std::optional<Refusal> await(std::size_t index);
  // Of its pages, as they lie here. Only for a block that was awaited and is here.
  std::uint64_t checksum(std::size_t index) const;

 private:
  struct Chunk {
    std::size_t begin = 0, end = 0;  // of from_ and to_
    std::size_t part = 0;
    std::vector<bool> landed;  // by piece; empty until it is asked for
    std::size_t missing = 0;   // pieces, once it is asked for
  };
  std::size_t page_bytes_of(const Chunk& chunk) const {  // of each page
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

  const std::uint64_t id_;
  const NodeId node_;
  const Incarnation incarnation_;
  const Clock::time_point deadline_;
  PageArena& arena_;
  const std::size_t part_bytes_;
  std::vector<std::uint64_t> names_;      // of the blocks, in PageArrivals; of work in parts
  std::vector<std::uint32_t> from_, to_;  // of all blocks, one after the other
  std::vector<std::size_t> block_ends_;   // in from_ and to_

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Chunk> chunks_;
  std::size_t window_ = window;
  std::size_t asked_ = 0, done_ = 0;                           // chunks
  std::size_t sum_chunk_ = 0, sum_piece_ = 0, sum_pages_ = 0;  // all before them are in sum_ or sums_
  PageSum sum_;
  std::vector<std::uint64_t> sums_;  // of the blocks that are here, in order
  std::optional<Refusal> refusal_;
};

}  // namespace troupe
