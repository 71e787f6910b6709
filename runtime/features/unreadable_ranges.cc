// Tracks ranges of stored keys whose rows are damaged, so that a request for one is refused instead
// of answered as absent. Writing or erasing such a key takes it out of its range.
#include "runtime/features/unreadable_ranges.h"

#include <algorithm>
#include <utility>

namespace troupe {

void UnreadableRanges::add(std::string from, std::string to) {
  const std::lock_guard lock(mutex_);
  std::vector<Range> ranges = ranges_ ? *ranges_ : std::vector<Range>{};
  ranges.push_back({std::move(from), std::move(to)});
  set(std::move(ranges));
}

void UnreadableRanges::remove(std::string_view key) {
  if (empty()) return;
  const std::lock_guard lock(mutex_);
  if (!contains(ranges_, key)) return;
  std::vector<Range> left;
  const std::string behind = std::string(key) + '\0';  // the next key
  for (const Range& range : *ranges_) {
    const bool is_key_alone = range.from == key && range.to == behind;
    if (is_key_alone) continue;
    if (!range.contains(key) || ranges_->size() >= ranges_max) {
      left.push_back(range);
      continue;
    }
    if (range.from != key) left.push_back({range.from, std::string(key)});
    if (range.to != behind) left.push_back({behind, range.to});
  }
  set(std::move(left));
}

bool UnreadableRanges::contains(const Snapshot& ranges, std::string_view key) {
  return ranges && std::ranges::any_of(*ranges, [&](const Range& range) { return range.contains(key); });
}

UnreadableRanges::Snapshot UnreadableRanges::now() const {
  if (empty()) return {};
  const std::lock_guard lock(mutex_);
  return ranges_;
}

void UnreadableRanges::set(std::vector<Range> ranges) {
  any_.store(!ranges.empty());
  ranges_ = ranges.empty() ? nullptr : std::make_shared<const std::vector<Range>>(std::move(ranges));
}

}  // namespace troupe
