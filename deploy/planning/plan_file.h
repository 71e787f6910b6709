#pragma once
// A plan as JSON: what went in, and of each placement its figures and the whole list: which items are
// everywhere, which on each node, and which nowhere, so that a cluster that follows it leaves them out. A
// later `troupe plan --move-from` reads it back and says what changes; items are found by id, so catalogs and
// clusters may differ.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deploy/planning/plan_placements.h"

namespace troupe::deploy {

inline constexpr std::size_t listed_items_max = 10'000'000;

// ids: of the items; empty: the numbers themselves. Throws std::invalid_argument above listed_items_max.
nlohmann::json placement_list(const placement::Placement& placement, const std::vector<std::string>& ids);

struct EarlierPlacement {
  std::vector<placement::NodeNumber> nodes;
  std::vector<std::string> everywhere, nowhere;  // older files do not say what is nowhere
  std::map<placement::NodeNumber, std::vector<std::string>> shards;
};
// What a plan of so many items may be read from: several placements, ids of some tens of bytes.
struct PlanFileBounds {
  std::size_t bytes_max = std::size_t{2} << 30, values_max = 6 * listed_items_max;
};
// The one with this name; each item is in one list. Throws std::runtime_error that says what is wrong with
// the file.
EarlierPlacement read_placement(const std::string& path, const std::string& name,
                                const PlanFileBounds& bounds = {});

// As far as the items are the catalog's.
placement::Placement known_part(const EarlierPlacement& earlier, std::uint64_t items,
                                const std::vector<std::string>& ids);

struct PlanMoves {
  std::vector<placement::Move> moves;
  std::uint64_t items = 0;  // of the catalog; those behind are not in it any more:
  std::vector<std::string> removed_ids;
  std::uint64_t gains = 0, computed = 0;  // copies that nodes get; of those: nobody has the item
  std::uint64_t losses = 0, changed_items = 0;
  std::uint64_t gained_bytes = 0;
};
PlanMoves moves_from(const EarlierPlacement& earlier, const placement::Placement& next,
                     const placement::Items& items, const std::vector<std::string>& ids);
nlohmann::json moves_list(const PlanMoves& moves, const std::vector<std::string>& ids);

}  // namespace troupe::deploy
