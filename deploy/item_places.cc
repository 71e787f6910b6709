#include "deploy/item_places.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "deploy/plan_file.h"
#include "runtime/config.h"

namespace troupe::deploy {
namespace {

std::string list(const std::vector<NodeId>& nodes) {
  std::string text;
  for (const NodeId node : nodes) text += (text.empty() ? "" : ", ") + std::to_string(node);
  return text;
}

router::ItemPlaces planned(const std::string& knob, std::vector<NodeId> workers) {
  std::string file = knob, name = "hrcs";
  const std::size_t colon = knob.rfind(':');
  if (!std::filesystem::exists(file) && colon != std::string::npos)
    file = knob.substr(0, colon), name = knob.substr(colon + 1);
  if (!std::filesystem::exists(file))
    throw ConfigError("pool.placement is " + knob + "; expected any, replicate, hash, or a plan's file");
  const EarlierPlacement plan = read_placement(file, name);
  if (plan.nodes != workers)
    throw ConfigError("pool.placement: " + file + " is a plan for nodes " + list(plan.nodes) +
                      "; expected one for the workers " + list(workers));
  router::ItemPlaces::Listed listed;
  for (const std::string& id : plan.everywhere) listed[id] = placement::everywhere;
  for (const auto& [node, ids] : plan.shards) {
    const auto at = std::ranges::lower_bound(plan.nodes, node) - plan.nodes.begin();
    for (const std::string& id : ids) listed[id] = static_cast<placement::Place>(at);
  }
  return router::ItemPlaces(std::move(workers), std::move(listed));
}

}  // namespace

std::shared_ptr<const router::ItemPlaces> item_places(const std::string& knob, std::vector<NodeId> workers) {
  std::ranges::sort(workers);
  if (knob == "any") return nullptr;
  if (knob == "hash") return std::make_shared<const router::ItemPlaces>(std::move(workers));
  if (knob == "replicate")
    return std::make_shared<const router::ItemPlaces>(router::ItemPlaces::replicated(std::move(workers)));
  return std::make_shared<const router::ItemPlaces>(planned(knob, std::move(workers)));
}

}  // namespace troupe::deploy
