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

HotItems::HotItems(HotItemsConfig config) : window_(config.window) {
  TROUPE_CHECK(window_ > 0 && window_ <= 1U << 24, "the window fits the counters");
  const double hot = std::ceil(config.hot_share * window_), most = window_;
  hot_count_ = static_cast<std::uint32_t>(std::clamp(hot, std::min<double>(config.uses_min, most), most));
  keep_count_ = std::max(1U, static_cast<std::uint32_t>(std::ceil(config.keep_share * hot_count_)));
  TROUPE_CHECK(hot_count_ > 0 && keep_count_ <= hot_count_, "an item that enters may stay");
  counts_.resize(std::bit_ceil(slots_per_access * window_));
  recent_.reserve(window_);
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

HotItems::Change HotItems::touch(std::uint64_t key) {
  Change change;
  const Slot at = slot(key);
  ++counts_[at];
  if (recent_.size() < window_) {
    recent_.push_back(at);
  } else {
    const Slot old = std::exchange(recent_[oldest_], at);
    oldest_ = (oldest_ + 1) % window_;
    if (--counts_[old] + 1 == keep_count_)
      if (const auto gone = hot_.extract(old)) change.left = gone.mapped();
  }
  change.entered = counts_[at] >= hot_count_ && hot_.try_emplace(at, key).second;
  return change;
}

}  // namespace troupe::placement
