#pragma once
// Tracks ranges of a column's keys whose rows could not be read when it was loaded, because the
// disk damaged them. Whether such a key exists is unknown until it is written or erased.
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
  // The ranges at one time; null = none. Take the snapshot before the catalog it is compared with,
  // because a key leaves a range only after its write is visible.
  using Snapshot = std::shared_ptr<const std::vector<Range>>;

  void add(std::string from, std::string to);
  // Called when the key was written or erased. Splits its range at the key, unless there are
  // `ranges_max`; then the range stays unchanged.
  void remove(std::string_view key);

  bool empty() const { return !any_.load(); }
  bool contains(std::string_view key) const { return contains(now(), key); }
  static bool contains(const Snapshot& ranges, std::string_view key);
  Snapshot now() const;

  static constexpr std::size_t ranges_max = 10'000;

 private:
  void set(std::vector<Range> ranges);

  std::atomic<bool> any_ = false;
  mutable std::mutex mutex_;  // guards ranges_
  Snapshot ranges_;
};

}  // namespace troupe
