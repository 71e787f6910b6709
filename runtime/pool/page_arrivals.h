#pragma once
// Blocks that are being copied into an arena's pages: how far they have come, and how it ended. Whoever
// copies says so; a pass that has begun before waits here, layer by layer, for a page holds its layers one
// after the other. A block is known by the generation of its reservation, which is never that of another one.
//
// That bytes are there does not say that they are right: their checksum is of the whole block, and compared
// at the end. Until that is good nothing may leave the process that was computed from them.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>

namespace troupe {

// Thread-safe.
class PageArrivals {
 public:
  using Clock = std::chrono::steady_clock;
  // So many that have ended are remembered, for those who come late; of an older one nothing is known, as if
  // it had not begun.
  static constexpr std::size_t ended_max = 4'096;

  void begin(std::uint64_t generation);
  // The first `page_bytes` bytes of each page of these blocks are there.
  void came(std::span<const std::uint64_t> generations, std::size_t page_bytes);
  // Good: all bytes are there, and were compared with their checksum. The first end counts.
  void end(std::uint64_t generation, bool good);

  // Waits until the first `page_bytes` bytes of each of its pages are there. False: its end was not good, or
  // the time is over.
  bool wait(std::uint64_t generation, std::size_t page_bytes, Clock::time_point deadline);
  // Waits for the end; when it was, if that was good.
  std::optional<Clock::time_point> wait_for_end(std::uint64_t generation, Clock::time_point deadline);

  std::size_t known() const;

 private:
  struct Arrival {
    std::size_t page_bytes = 0;
    bool ended = false, good = false;
    Clock::time_point ended_at;
  };
  const Arrival* find(std::uint64_t generation) const;  // null: it has not begun

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Arrival> arrivals_;
  std::deque<std::uint64_t> ended_;  // oldest first
};

}  // namespace troupe
