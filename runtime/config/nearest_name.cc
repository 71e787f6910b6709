// Compares names by their edit distance.
#include "runtime/config/nearest_name.h"

#include <algorithm>
#include <utility>

namespace troupe {

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t k = 0; k <= to.size(); ++k) row[k] = k;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t k = 1; k <= to.size(); ++k) {
      const std::size_t kept = diagonal + (from[i - 1] != to[k - 1]);
      diagonal = std::exchange(row[k], std::min({kept, row[k] + 1, row[k - 1] + 1}));
    }
  }
  return row[to.size()];
}

std::string nearest_name(const std::vector<std::string>& names, std::string_view word,
                         std::size_t distance_max) {
  std::string nearest;
  std::size_t least = distance_max + 1;
  for (const std::string& name : names)
    if (const std::size_t far = edit_distance(word, name); far < least) least = far, nearest = name;
  return nearest;
}

}  // namespace troupe
