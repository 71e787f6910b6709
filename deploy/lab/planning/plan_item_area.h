#pragma once
// Recommends pool.item_share for a placement that `troupe-lab plan` made.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "deploy/lab/planning/plan_placements.h"
#include "placement/split/item_area.h"

namespace troupe::deploy {

// The pool of a node that serves the model of the plan.
struct PlanPool {
  std::uint64_t page_bytes = 1;
  std::uint32_t pages = 0;           // of pool.memory
  placement::ItemPages item_blocks;  // of the whole catalog
};

struct PlanItemArea {
  std::uint64_t pages = 0;       // for the items of the fullest node, and for items that are put later
  std::uint32_t auto_pages = 0;  // that the node itself chooses, with pool.item_share: auto
  double share = 0;              // pages of those of the pool; above 1 they do not fit
  bool is_auto() const { return pages <= auto_pages; }
};
PlanItemArea plan_item_area(const PlannedPlacement& planned, const PlanPool& pool);

// `pool` is unset for a plan without a model, which says nothing, and "auto" in its file.
std::string item_area_text(const PlannedPlacement& planned, const std::optional<PlanPool>& pool);
nlohmann::json item_area_figures(const PlannedPlacement& planned, const std::optional<PlanPool>& pool);

}  // namespace troupe::deploy
