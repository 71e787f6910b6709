// Keeps cached pages of keys and values in device memory, and copies pages to and from host memory.
// Copies run in a stream of their own, beside the passes.
#include "kernels/cuda/device/device_arena.h"

#include <utility>

#include "kernels/base/check.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::size_t page_alignment = 64;  // bytes; decoders expect it

}  // namespace

PageCopies::PageCopies(std::size_t page_bytes, std::uint32_t in_flight_max)
    : page_bytes_(page_bytes), in_flight_max_(in_flight_max) {
  for (std::uint32_t i = 0; i < in_flight_max; ++i) spare_.push_back(std::make_unique<Event>());
}

std::optional<PageCopies::Ticket> PageCopies::promote(std::span<const PageCopy> pages) {
  return begin(pages, [this](const PageCopy& first, std::size_t bytes) {
    stream_.upload(first.device, first.host, bytes);
  });
}

std::optional<PageCopies::Ticket> PageCopies::demote(std::span<const PageCopy> pages) {
  return begin(pages, [this](const PageCopy& first, std::size_t bytes) {
    stream_.download(first.host, first.device, bytes);
  });
}

// Copies runs of pages that are contiguous on both sides in one piece.
template <class Copy>
std::optional<PageCopies::Ticket> PageCopies::begin(std::span<const PageCopy> pages, const Copy& copy) {
  collect();
  if (spare_.empty()) return std::nullopt;
  for (std::size_t first = 0, next = 0; first < pages.size(); first = next) {
    std::size_t bytes = 0;
    do {
      ++next;
      bytes += page_bytes_;
    } while (next < pages.size() && pages[next].device == pages[first].device + bytes &&
             pages[next].host == pages[first].host + bytes);
    copy(pages[first], bytes);
  }
  in_flight_.push_back(std::move(spare_.front()));
  spare_.pop_front();
  stream_.record(*in_flight_.back());
  return ++begun_;
}

// Recycles the events of copies that have ended.
void PageCopies::collect() {
  while (!in_flight_.empty() && in_flight_.front()->reached()) {
    spare_.push_back(std::move(in_flight_.front()));
    in_flight_.pop_front();
  }
}

bool PageCopies::done(Ticket ticket) {
  TROUPE_CHECK(ticket <= begun_, "promote or demote returned this ticket");
  collect();
  return ticket + in_flight_.size() <= begun_;
}

void PageCopies::finish(Ticket ticket) {
  if (done(ticket)) return;
  in_flight_[in_flight_.size() - 1 - (begun_ - ticket)]->synchronize();
  TROUPE_CHECK(done(ticket), "copies end in order");
}

// Does not wait for events: those of a failed copy may never be reached.
void PageCopies::finish_all() {
  while (!in_flight_.empty()) {
    spare_.push_back(std::move(in_flight_.front()));
    in_flight_.pop_front();
  }
  stream_.synchronize();
}

DeviceArena::DeviceArena(std::size_t page_bytes, std::uint32_t pages)
    : pages_(pages),
      stride_((page_bytes + page_alignment - 1) / page_alignment * page_alignment),
      memory_(stride_ * pages) {}

std::byte* DeviceArena::page(std::uint32_t index) const {
  TROUPE_CHECK(index < pages_, "the index is a page of this arena");
  return memory_.data() + index * stride_;
}

std::optional<std::uint32_t> DeviceArena::index_of(const std::byte* page) const {
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(memory_.data());
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(page);
  if (at < first || at >= first + memory_.size_bytes() || (at - first) % stride_ != 0) return std::nullopt;
  return static_cast<std::uint32_t>((at - first) / stride_);
}

}  // namespace troupe::kernels::cuda
