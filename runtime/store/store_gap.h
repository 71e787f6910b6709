#pragma once
// Defines the callbacks of a walk over a range of keys, and the gaps of unreadable keys that it
// skips.
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
