#pragma once
// Reads and writes a plan as JSON: its input and, for each placement, figures and the whole list of
// items. The list has the items on every node, those on each node, and those on no node, which a
// cluster that follows the plan does not keep. A later `troupe plan --move-from` reads the file and
// reports the changes. Items are matched by id, so catalogs and clusters may differ.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deploy/planning/plan_placements.h"

namespace troupe::deploy {

inline constexpr std::size_t listed_items_max = 10'000'000;

// `ids` are the items' ids; empty: the item numbers are used. Throws std::invalid_argument for more
// than listed_items_max items.
nlohmann::json placement_list(const placement::Placement& placement, const std::vector<std::string>& ids);

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

// Returns the part of the placement whose items are in the catalog.
placement::Placement known_part(const PreviousPlacement& earlier, std::uint64_t items,
                                const std::vector<std::string>& ids);

struct PlanMoves {
  std::vector<placement::PlacementMove> moves;
  std::uint64_t items = 0;  // items of the catalog; larger item numbers stand for removed items:
  std::vector<std::string> removed_ids;
  // gains: copies that nodes receive. computed: those of them that no node has
  std::uint64_t gains = 0, computed = 0;
  std::uint64_t losses = 0, changed_items = 0;
  std::uint64_t gained_bytes = 0;
};
PlanMoves moves_from(const PreviousPlacement& earlier, const placement::Placement& next,
                     const placement::Items& items, const std::vector<std::string>& ids);
nlohmann::json moves_list(const PlanMoves& moves, const std::vector<std::string>& ids);

}  // namespace troupe::deploy
