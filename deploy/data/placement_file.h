#pragma once
// Reads a placement from a plan, the output of `troupe-lab plan --json`: which node keeps the blocks
// of which item. Nodes follow it (pool.placement), and a later plan reports the changes against it.
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "placement/assignment/placement.h"

namespace troupe::deploy {

inline constexpr std::size_t listed_items_max = 10'000'000;

struct PreviousPlacement {
  std::vector<placement::NodeNumber> nodes;
  std::vector<std::string> everywhere, nowhere;  // older files have no list `nowhere`
  std::map<placement::NodeNumber, std::vector<std::string>> shards;
};
// Limits of a plan file: enough for several placements with ids of some tens of bytes.
struct PlanFileBounds {
  std::size_t bytes_max = std::size_t{2} << 30, values_max = 6 * listed_items_max;
};
// Returns the placement with this name. Each item must be in one list only. Throws
// std::runtime_error that says what is wrong with the file.
PreviousPlacement read_placement(const std::string& path, const std::string& name,
                                 const PlanFileBounds& bounds = {});

}  // namespace troupe::deploy
