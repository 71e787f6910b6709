#pragma once
// Holds KV pages in device memory, as a tier beside host memory, and copies pages between host and
// device. Copies run beside the passes in a stream of their own and end in the order in which they
// began. Callers decide which pages move and when (actors/inference/device_tier.h); a page must not
// be used otherwise until its copy is done.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda {

// The addresses of one page on both sides. Host memory should be page-locked; otherwise the copy
// blocks its caller.
struct PageCopy {
  std::byte* device = nullptr;
  std::byte* host = nullptr;
};

// Copies pages in one stream; only one thread may use it at a time.
class PageCopies {
 public:
  using Ticket = std::uint64_t;  // increases with each copy

  PageCopies(std::size_t page_bytes, std::uint32_t in_flight_max);

  // Begins a copy from host to device, or back; returns nullopt if `in_flight_max` copies are in
  // flight.
  std::optional<Ticket> promote(std::span<const PageCopy> pages);
  std::optional<Ticket> demote(std::span<const PageCopy> pages);
  // Returns whether that copy has ended, without waiting.
  bool done(Ticket ticket);
  // Waits for that copy.
  void finish(Ticket ticket);
  // Waits for all copies, also after a failure: afterwards no copy accesses host memory.
  void finish_all();

 private:
  template <class Copy>
  std::optional<Ticket> begin(std::span<const PageCopy> pages, const Copy& copy);
  void collect();

  const std::size_t page_bytes_;
  const std::uint32_t in_flight_max_;
  Stream stream_;
  std::deque<std::unique_ptr<Event>> in_flight_;  // in order; the last one belongs to ticket `begun_`
  std::deque<std::unique_ptr<Event>> spare_;
  Ticket begun_ = 0;
};

class DeviceArena {
 public:
  // Allocates memory for that many pages; contents are undefined.
  DeviceArena(std::size_t page_bytes, std::uint32_t pages);

  std::uint32_t pages() const { return pages_; }
  std::byte* page(std::uint32_t index) const;
  // Returns the index of a page's address; nullopt for other addresses.
  std::optional<std::uint32_t> index_of(const std::byte* page) const;

 private:
  const std::uint32_t pages_;
  const std::size_t stride_;  // distance between pages in bytes
  const DeviceMemory memory_;
};

}  // namespace troupe::kernels::cuda
