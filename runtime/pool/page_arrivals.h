#pragma once
// Tracks blocks that are being copied into an arena's pages: how many bytes have arrived, and how
// each copy ended. The copying thread reports progress. A pass that has already begun waits here,
// layer by layer, because a page holds its layers one after the other. A block is known by the
// generation of its reservation, which is unique.
//
// Bytes that have arrived are not yet verified: the checksum covers the whole block and is
// compared at the end. Until that comparison succeeds, nothing computed from these bytes may leave
// the process.
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
  // Number of ended arrivals that are remembered for late callers. Older ones are unknown, as if
  // they had not begun.
  static constexpr std::size_t ended_max = 4'096;

  void begin(std::uint64_t generation);
  // Reports that the first `page_bytes` bytes of each page of these blocks have arrived.
  void advance(std::span<const std::uint64_t> generations, std::size_t page_bytes);
  // Ends an arrival; only the first end counts. `good`: all bytes arrived and match their checksum.
  void end(std::uint64_t generation, bool good);

  // Waits until the first `page_bytes` bytes of each page have arrived. Returns false if the
  // arrival failed or the deadline passed.
  bool wait(std::uint64_t generation, std::size_t page_bytes, Clock::time_point deadline);
  // Waits for the end. Returns its time if it was good, nullopt if it failed or the deadline
  // passed.
  std::optional<Clock::time_point> wait_for_end(std::uint64_t generation, Clock::time_point deadline);

  std::size_t known() const;

 private:
  struct Arrival {
    std::size_t page_bytes = 0;
    bool ended = false, good = false;
    Clock::time_point ended_at;
  };
  const Arrival* find(std::uint64_t generation) const;  // null if it has not begun or is forgotten

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Arrival> arrivals_;
  std::deque<std::uint64_t> ended_;  // oldest first
};

}  // namespace troupe
