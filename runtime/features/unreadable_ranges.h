#pragma once
// Ranges of a column's keys whose rows could not be read when it was loaded: of these keys nobody knows
// whether they are there, until they are written or erased.
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

class UnreadableRanges {
 public:
  struct Range {
    std::string from, to;  // [from, to); `to` empty: to the end
    bool contains(std::string_view key) const { return key >= from && (to.empty() || key < to); }
  };
  // As they were at one time; none: null. Whoever compares it with a catalog takes it before the catalog, for
  // a key leaves a range only after what was written of it can be seen.
  using Snapshot = std::shared_ptr<const std::vector<Range>>;

  void add(std::string from, std::string to);
  // It was written or erased. A range is divided by that, unless there are `ranges_max`; then it stays as it
  // is.
  void remove(std::string_view key);

  bool empty() const { return !any_.load(); }
  bool contains(std::string_view key) const { return contains(now(), key); }
  static bool contains(const Snapshot& ranges, std::string_view key);
  Snapshot now() const;

  static constexpr std::size_t ranges_max = 10'000;

 private:
  void set(std::vector<Range> ranges);

  std::atomic<bool> any_ = false;
  mutable std::mutex mutex_;  // guards the next
  Snapshot ranges_;
};

}  // namespace troupe
