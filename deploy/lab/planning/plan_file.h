#pragma once
// Writes a plan as JSON: its input and, for each placement, figures and the whole list of items. The
// list has the items on every node, those on each node, and those on no node, which a cluster that
// follows the plan does not keep. A later `troupe-lab plan --move-from` reads the file
// (deploy/data/placement_file.h) and reports the changes. Items are matched by id, so catalogs and
// clusters may differ.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deploy/data/placement_file.h"
#include "deploy/lab/planning/plan_placements.h"

namespace troupe::deploy {

// `ids` are the items' ids; empty: the item numbers are used. Throws std::invalid_argument for more
// than listed_items_max items.
nlohmann::json placement_list(const placement::Placement& placement, const std::vector<std::string>& ids);

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
