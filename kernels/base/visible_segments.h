#pragma once
// Earlier segments that a segment sees, as ascending ranges of their indices: in a causal prompt of
// a thousand segments each needs one range, not a list of all before it. Up to two ranges take no
// memory of their own.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

namespace troupe::kernels {

class VisibleSegments {
 public:
  struct Range {  // half open
    std::uint32_t begin = 0, end = 0;
    bool operator==(const Range&) const = default;
  };

  VisibleSegments() = default;
  VisibleSegments(std::initializer_list<std::uint32_t> segments) {
    for (const std::uint32_t segment : segments) add(segment);
  }
  explicit VisibleSegments(std::span<const std::uint32_t> segments) {
    for (const std::uint32_t segment : segments) add(segment);
  }
  static VisibleSegments all_before(std::uint32_t segment) {
    VisibleSegments all;
    all.add({0, segment});
    return all;
  }

  // Appends a range. A range that begins where the last one ends extends it. Whether ranges ascend
  // is checked by validate, not here.
  void add(Range range) {
    if (range.begin == range.end) return;
    if (count_ > 0 && last().end == range.begin && range.begin < range.end) {
      last().end = range.end;
    } else if (many_.empty() && count_ < few_.size()) {
      few_[count_++] = range;
    } else {
      if (many_.empty()) many_.assign(few_.begin(), few_.end());
      many_.push_back(range);
      ++count_;
    }
  }
  void add(std::uint32_t segment) { add({segment, segment + 1}); }

  std::span<const Range> ranges() const {
    return many_.empty() ? std::span<const Range>(few_.data(), count_) : std::span<const Range>(many_);
  }
  bool empty() const { return count_ == 0; }
  bool contains(std::uint32_t segment) const {
    for (const Range range : ranges())
      if (range.begin <= segment && segment < range.end) return true;
    return false;
  }
  bool operator==(const VisibleSegments& other) const {
    const auto a = ranges(), b = other.ranges();
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

  // Iterates over the segments one by one. Use it only on a sound plan: a range from outside may
  // end anywhere.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::uint32_t;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::uint32_t*;
    using reference = std::uint32_t;

    Iterator() = default;
    Iterator(const Range* range, const Range* end)
        : range_(range), end_(end), at_(range != end ? range->begin : 0) {}
    std::uint32_t operator*() const { return at_; }
    Iterator& operator++() {
      if (++at_ >= range_->end) *this = Iterator(range_ + 1, end_);
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return range_ == other.range_ && at_ == other.at_; }

   private:
    const Range *range_ = nullptr, *end_ = nullptr;
    std::uint32_t at_ = 0;
  };
  Iterator begin() const { return {ranges().data(), ranges().data() + ranges().size()}; }
  Iterator end() const {
    const Range* const last = ranges().data() + ranges().size();
    return {last, last};
  }

 private:
  Range& last() { return many_.empty() ? few_[count_ - 1] : many_.back(); }

  std::array<Range, 2> few_{};
  std::vector<Range> many_;
  std::uint32_t count_ = 0;
};

}  // namespace troupe::kernels
