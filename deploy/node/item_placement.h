#pragma once
// Parses the setting pool.placement, which assigns items' blocks to workers.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "router/precompute/item_assignment.h"

namespace troupe::deploy {

// "any" returns null. "replicate" and "hash" assign items to `workers`; so does "auto", by hash; the router
// decides which items are hot beside it. Otherwise the setting is FILE or FILE:NAME, the output of
// `troupe-lab plan --json`. NAME is one of its placements, hrcs by default; its nodes must be `workers`.
// Throws ConfigError.
std::shared_ptr<const router::ItemAssignment> item_places(const std::string& setting,
                                                          std::vector<NodeId> workers);

// The plan that a setting FILE or FILE:NAME names.
struct PlanName {
  std::string file, placement;
};
std::optional<PlanName> find_plan_name(const std::string& setting);  // nullopt for another setting
// Reads a plan, with the nodes that it is for. Throws ConfigError.
PlacementRead read_item_plan(const PlanName& plan);

}  // namespace troupe::deploy
