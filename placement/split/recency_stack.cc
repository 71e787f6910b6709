// Computes for each use of a key how much was used since its last use. This distance tells at once
// which sizes of LRU cache would have hit.
#include "placement/split/recency_stack.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe::placement {

RecencyStack::RecencyStack(std::size_t keys_max)
    : keys_max_(keys_max), slots_(2 * keys_max + 2), sums_(slots_.size() + 1) {
  TROUPE_CHECK(keys_max > 0, "keys_max is at least 1");
  slot_of_.reserve(keys_max + 1);
}

void RecencyStack::add(std::size_t slot, std::int64_t size) {
  total_ += static_cast<std::uint64_t>(size);
  for (std::size_t i = slot + 1; i < sums_.size(); i += i & -i) sums_[i] += static_cast<std::uint64_t>(size);
}

std::uint64_t RecencyStack::before(std::size_t slot) const {
  std::uint64_t sum = 0;
  for (std::size_t i = slot; i > 0; i -= i & -i) sum += sums_[i];
  return sum;
}

std::optional<std::uint64_t> RecencyStack::use(std::uint64_t key, std::uint32_t size) {
  TROUPE_CHECK(size > 0, "a used key has a size");
  if (next_ == slots_.size()) compact();
  std::optional<std::uint64_t> distance;
  const auto [at, is_new] = slot_of_.try_emplace(key, static_cast<std::uint32_t>(next_));
  if (!is_new) {
    Slot& last = slots_[at->second];
    distance = total_ - before(at->second) - last.size + size;
    add(at->second, -std::int64_t{last.size});
    last.size = 0;
    at->second = static_cast<std::uint32_t>(next_);
  }
  slots_[next_] = {key, size};
  add(next_, size);
  ++next_;
  if (slot_of_.size() > keys_max_) forget_oldest();
  return distance;
}

void RecencyStack::trim(std::uint64_t total) {
  while (total_ > total && !slot_of_.empty()) forget_oldest();
}

void RecencyStack::forget_oldest() {
  while (slots_[oldest_].size == 0) ++oldest_;
  slot_of_.erase(slots_[oldest_].key);
  add(oldest_, -std::int64_t{slots_[oldest_].size});
  slots_[oldest_].size = 0;
}

// Moves the kept slots to the front, in their order.
void RecencyStack::compact() {
  std::size_t to = 0;
  for (std::size_t from = oldest_; from < next_; ++from) {
    if (slots_[from].size == 0) continue;
    slots_[to] = slots_[from];
    slot_of_.find(slots_[to].key)->second = static_cast<std::uint32_t>(to);
    ++to;
  }
  for (std::size_t slot = to; slot < next_; ++slot) slots_[slot].size = 0;
  next_ = to;
  oldest_ = 0;
  std::ranges::fill(sums_, 0);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    sums_[slot + 1] += slots_[slot].size;
    const std::size_t above = slot + 1 + ((slot + 1) & -(slot + 1));
    if (above < sums_.size()) sums_[above] += sums_[slot + 1];
  }
}

}  // namespace troupe::placement
