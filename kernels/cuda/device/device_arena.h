#pragma once
// KV pages in device memory, as a tier beside host memory: the memory of all pages, and copies of pages
// between host and device. Copies run beside the passes, in a stream of their own, and end in the order in
// which they began. Which pages move, and when, others decide (actors/inference/device_tier.h); a page must
// not be used for anything else until its copy is done.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda {

// One page in both places. Host memory is best page-locked: then the copy does not hold up its caller.
struct PageCopy {
  std::byte* device = nullptr;
  std::byte* host = nullptr;
};

// Copies in one stream. One thread at a time.
class PageCopies {
 public:
  using Ticket = std::uint64_t;  // larger for later copies

  PageCopies(std::size_t page_bytes, std::uint32_t in_flight_max);

  // Begins a copy, from host to device or back; none where `in_flight_max` are under way.
  std::optional<Ticket> promote(std::span<const PageCopy> pages);
  std::optional<Ticket> demote(std::span<const PageCopy> pages);
  // Whether that copy has ended. Does not wait.
  bool done(Ticket ticket);
  // Waits for it.
  void finish(Ticket ticket);
  // Waits for all that was begun, also after a failure: then no copy touches host memory any more.
  void finish_all();

 private:
  template <class Copy>
  std::optional<Ticket> begin(std::span<const PageCopy> pages, const Copy& copy);
  void collect();

  const std::size_t page_bytes_;
  const std::uint32_t in_flight_max_;
  Stream stream_;
  std::deque<std::unique_ptr<Event>> in_flight_;  // in order; the last is of ticket `begun_`
  std::deque<std::unique_ptr<Event>> spare_;
  Ticket begun_ = 0;
};

class DeviceArena {
 public:
  // Memory for that many pages; contents undefined.
  DeviceArena(std::size_t page_bytes, std::uint32_t pages);

  std::uint32_t pages() const { return pages_; }
  std::byte* page(std::uint32_t index) const;
  // The index of an address that `page` gave; none for others.
  std::optional<std::uint32_t> index_of(const std::byte* page) const;

 private:
  const std::uint32_t pages_;
  const std::size_t stride_;  // bytes from page to page
  const DeviceMemory memory_;
};

}  // namespace troupe::kernels::cuda
