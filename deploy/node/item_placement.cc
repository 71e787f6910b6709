// Parses the setting pool.placement, which says which workers keep the blocks of which items, and
// reads the plan file that it may name.
#include "deploy/node/item_placement.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "deploy/data/placement_file.h"
#include "runtime/config/config.h"

namespace troupe::deploy {
namespace {

std::string list(const std::vector<NodeId>& nodes) {
  std::string text;
  for (const NodeId node : nodes) text += (text.empty() ? "" : ", ") + std::to_string(node);
  return text;
}

PreviousPlacement read_plan(const std::string& file, const std::string& name) {
  try {
    return read_placement(file, name);
  } catch (const std::runtime_error& error) {
    throw ConfigError(std::string("pool.placement: ") + error.what());
  }
}

bool is_there(const std::string& file) {
  std::error_code ignored;  // such as a name that is too long
  return std::filesystem::exists(file, ignored);
}

router::ItemAssignment planned(const std::string& setting, std::vector<NodeId> workers) {
  const PlanName name = *find_plan_name(setting);
  if (!is_there(name.file))
    throw ConfigError("pool.placement is " + setting +
                      "; expected auto, any, replicate, hash, or a file of troupe-lab plan --json");
  PlacementRead plan = read_item_plan(name);
  if (plan.nodes != workers)
    throw ConfigError("pool.placement: " + name.file + " is a plan for nodes " + list(plan.nodes) +
                      "; expected one for the workers " + list(workers));
  return router::ItemAssignment(std::move(workers), std::move(plan.items));
}

}  // namespace

std::optional<PlanName> find_plan_name(const std::string& setting) {
  for (const char* word : {"auto", "any", "replicate", "hash"})
    if (setting == word) return std::nullopt;
  const std::size_t colon = setting.rfind(':');
  if (is_there(setting) || colon == std::string::npos) return PlanName{setting, "hrcs"};
  return PlanName{setting.substr(0, colon), setting.substr(colon + 1)};
}

PlacementRead read_item_plan(const PlanName& name) {
  PreviousPlacement plan = read_plan(name.file, name.placement);
  ListedItems listed;
  for (const std::string& id : plan.everywhere) listed[id] = placement::everywhere;
  for (const std::string& id : plan.nowhere) listed[id] = placement::nowhere;
  for (const auto& [node, ids] : plan.shards) {
    const auto at = std::ranges::lower_bound(plan.nodes, node) - plan.nodes.begin();
    for (const std::string& id : ids) listed[id] = static_cast<placement::NodeIndex>(at);
  }
  return {.items = std::make_shared<const ListedItems>(std::move(listed)), .nodes = std::move(plan.nodes)};
}

std::shared_ptr<const router::ItemAssignment> item_places(const std::string& setting,
                                                          std::vector<NodeId> workers) {
  std::ranges::sort(workers);
  if (setting == "any") return nullptr;
  if (setting == "auto" || setting == "hash")
    return std::make_shared<const router::ItemAssignment>(std::move(workers));
  if (setting == "replicate")
    return std::make_shared<const router::ItemAssignment>(
        router::ItemAssignment::replicated(std::move(workers)));
  return std::make_shared<const router::ItemAssignment>(planned(setting, std::move(workers)));
}

}  // namespace troupe::deploy
