#include "runtime/features/unreadable_ranges.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace troupe;

TEST_CASE("unreadable ranges: a written key leaves its range, its neighbours stay") {
  UnreadableRanges ranges;
  CHECK(ranges.empty());
  CHECK_FALSE(ranges.contains("a"));
  ranges.add("b", "d");
  ranges.add("x", "");
  const auto before = ranges.now();
  for (const char* key : {"b", "c", "ca", "x", "zz"}) CHECK(ranges.contains(key));
  for (const char* key : {"", "a", "d", "w"}) CHECK_FALSE(ranges.contains(key));
  ranges.remove("c");
  ranges.remove("zz");
  ranges.remove("a");
  for (const char* key : {"b", "bz", "ca", "x", "z", "zza"}) CHECK(ranges.contains(key));
  for (const char* key : {"c", "zz", "d"}) CHECK_FALSE(ranges.contains(key));
  CHECK(UnreadableRanges::contains(before, "c"));
}

TEST_CASE("unreadable ranges: a range disappears once all its keys are known") {
  UnreadableRanges ranges;
  ranges.add("a", std::string("a") + '\0');
  ranges.remove("a");
  CHECK(ranges.empty());
  CHECK_FALSE(ranges.now());
}

TEST_CASE("unreadable ranges: at ranges_max a key stays in its range, and a one-key range is removed") {
  UnreadableRanges ranges;
  ranges.add("", "");
  ranges.add("alone", std::string("alone") + '\0');
  for (std::size_t i = 0; i <= UnreadableRanges::ranges_max; ++i)
    ranges.remove("k" + std::to_string(1'000'000 + i));
  CHECK(ranges.now()->size() == UnreadableRanges::ranges_max);
  CHECK_FALSE(ranges.contains("k1000000"));
  CHECK(ranges.contains("k" + std::to_string(1'000'000 + UnreadableRanges::ranges_max)));
}
