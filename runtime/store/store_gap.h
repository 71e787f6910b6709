#pragma once
// Defines the callbacks of a walk over a range of stored keys (store_walk.h), and the gaps of
// damaged, unreadable keys that it skips and reports.
#include <functional>
#include <string>
#include <string_view>

namespace troupe {

struct StoreGap {
  std::string from, to;  // [from, to); `to` empty: to the end
  std::string why;
};
using UseStoreEntry =
    std::function<bool(std::string_view key, std::string_view value)>;  // false ends the walk
using UseStoreGap = std::function<void(const StoreGap&)>;

}  // namespace troupe
