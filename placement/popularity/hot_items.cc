// Tells which items have at least a given share of the latest accesses, for any number of items in
// a few hundred kilobytes. Such items are worth a copy on every node.
#include "placement/popularity/hot_items.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"

namespace troupe::placement {
namespace {

constexpr std::size_t slots_per_access = 4;  // enough slots that few items share one

}  // namespace

HotItems::HotItems(HotItemsConfig config)
    : window_(config.window), uses_min_(config.uses_min), keep_share_(config.keep_share) {
  TROUPE_CHECK(window_ > 0 && window_ <= 1U << 24, "the window fits the counters");
  choose_counts(static_cast<std::uint64_t>(std::ceil(std::clamp(config.hot_share, 0.0, 1.0) * window_)));
  counts_.resize(std::bit_ceil(slots_per_access * window_));
  recent_.reserve(window_);
  items_with_ = {static_cast<std::uint32_t>(counts_.size())};
}

// More accesses than the window has mean that no item is hot.
void HotItems::choose_counts(std::uint64_t accesses) {
  const std::uint64_t least = std::clamp(uses_min_, 1U, window_), most = window_;
  hot_count_ = accesses == 0 ? window_ + 1 : static_cast<std::uint32_t>(std::clamp(accesses, least, most));
  keep_count_ = accesses == 0 ? hot_count_
                              : std::max(1U, static_cast<std::uint32_t>(std::ceil(keep_share_ * hot_count_)));
  TROUPE_CHECK(keep_count_ <= hot_count_, "an item that enters may stay");
}

std::vector<std::uint64_t> HotItems::set_hot_count(std::uint64_t accesses) {
  choose_counts(accesses);
  std::vector<std::uint64_t> left;
  std::erase_if(hot_, [&](const auto& hot) {
    const bool leaves = counts_[hot.first] < keep_count_;
    if (leaves) left.push_back(hot.second);
    return leaves;
  });
  return left;
}

std::vector<AccessClass> HotItems::classes() const {
  std::vector<AccessClass> classes;
  for (std::size_t accesses = items_with_.size() - 1; accesses > 0; --accesses)
    if (items_with_[accesses] > 0) classes.push_back({accesses, items_with_[accesses]});
  return classes;
}

HotItems::Slot HotItems::slot(std::uint64_t key) const {
  return static_cast<Slot>(spread(key) & (counts_.size() - 1));
}

bool HotItems::contains(std::uint64_t key) const {
  const Slot at = slot(key);
  if (counts_[at] < keep_count_) return false;
  const auto hot = hot_.find(at);
  return hot != hot_.end() && hot->second == key;
}

void HotItems::count_access(Slot at) {
  const std::uint32_t accesses = ++counts_[at];
  if (accesses == items_with_.size()) items_with_.push_back(0);
  --items_with_[accesses - 1];
  ++items_with_[accesses];
}

void HotItems::forget_access(Slot at) {
  const std::uint32_t accesses = counts_[at]--;
  --items_with_[accesses];
  ++items_with_[accesses - 1];
  if (items_with_.back() == 0) items_with_.pop_back();
}

HotItems::Change HotItems::touch(std::uint64_t key) {
  Change change;
  const Slot at = slot(key);
  count_access(at);
  if (recent_.size() < window_) {
    recent_.push_back(at);
  } else {
    const Slot old = std::exchange(recent_[oldest_], at);
    oldest_ = (oldest_ + 1) % window_;
    forget_access(old);
    if (counts_[old] + 1 == keep_count_)
      if (const auto gone = hot_.extract(old)) change.left = gone.mapped();
  }
  change.entered = counts_[at] >= hot_count_ && hot_.try_emplace(at, key).second;
  return change;
}

}  // namespace troupe::placement
