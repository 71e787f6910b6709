#include "runtime/features/unreadable_ranges.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace troupe;

TEST_CASE("a key that is written leaves its range, its neighbours stay") {
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

TEST_CASE("what is known of every key is no range any more") {
  UnreadableRanges ranges;
  ranges.add("a", std::string("a") + '\0');
  ranges.remove("a");
  CHECK(ranges.empty());
  CHECK_FALSE(ranges.now());
}

TEST_CASE("ranges do not grow without bound: beyond it a key stays in its range, one that is a range goes") {
  UnreadableRanges ranges;
  ranges.add("", "");
  ranges.add("alone", std::string("alone") + '\0');
  for (std::size_t i = 0; i <= UnreadableRanges::ranges_max; ++i)
    ranges.remove("k" + std::to_string(1'000'000 + i));
  CHECK(ranges.now()->size() == UnreadableRanges::ranges_max);
  CHECK_FALSE(ranges.contains("k1000000"));
  CHECK(ranges.contains("k" + std::to_string(1'000'000 + UnreadableRanges::ranges_max)));
}
