// Tracks blocks (cached keys and values) that are being copied into this node's pages: how many
// bytes have arrived, and how each copy ended. A forward pass can thus start on the first layers of
// a block while later layers are still on their way.
#include "runtime/pool/page_arrivals.h"

namespace troupe {

const PageArrivals::Arrival* PageArrivals::find(std::uint64_t generation) const {
  const auto at = arrivals_.find(generation);
  return at == arrivals_.end() ? nullptr : &at->second;
}

void PageArrivals::begin(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  arrivals_.try_emplace(generation);
}

void PageArrivals::advance(std::span<const std::uint64_t> generations, std::size_t page_bytes) {
  {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t generation : generations)
      if (const auto at = arrivals_.find(generation); at != arrivals_.end())
        at->second.page_bytes = page_bytes;
  }
  changed_.notify_all();
}

void PageArrivals::end(std::uint64_t generation, bool good) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = arrivals_.find(generation);
    if (at == arrivals_.end() || at->second.ended) return;
    at->second.ended = true;
    at->second.good = good;
    at->second.ended_at = Clock::now();
    ended_.push_back(generation);
    if (ended_.size() > ended_max) {
      arrivals_.erase(ended_.front());
      ended_.pop_front();
    }
  }
  changed_.notify_all();
}

bool PageArrivals::wait(std::uint64_t generation, std::size_t page_bytes, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const Arrival* arrival = nullptr;
  changed_.wait_until(lock, deadline, [&] {
    arrival = find(generation);
    return arrival != nullptr && (arrival->ended || arrival->page_bytes >= page_bytes);
  });
  if (arrival == nullptr) return false;
  return arrival->ended ? arrival->good : arrival->page_bytes >= page_bytes;
}

std::optional<PageArrivals::Clock::time_point> PageArrivals::wait_for_end(std::uint64_t generation,
                                                                          Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const Arrival* arrival = nullptr;
  changed_.wait_until(lock, deadline, [&] {
    arrival = find(generation);
    return arrival != nullptr && arrival->ended;
  });
  if (arrival == nullptr || !arrival->good) return std::nullopt;
  return arrival->ended_at;
}

std::size_t PageArrivals::known() const {
  const std::lock_guard lock(mutex_);
  return arrivals_.size();
}

}  // namespace troupe
