// Writes and reads the progress of a leaving node.
#include "deploy/node/leave_progress.h"

#include <array>
#include <string_view>
#include <utility>

namespace troupe::deploy {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 3> phase_names{"drains", "migrates", "left"};

std::string router_text(const LeaveProgress::Router& router) {
  std::string text = router.name + (router.model.empty() ? "" : " (" + router.model + ")") + ": ";
  if (!router.heard) return text + "no answer yet";
  text += std::to_string(router.blocks) + " item blocks to copy, " + std::to_string(router.items) +
          " items looked up";
  std::string names;
  for (const std::string& name : router.awaited) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? text : text + ", awaits " + names;
}

LeaveProgress::Router router_in(const json& document) {
  LeaveProgress::Router router;
  document.at("router").get_to(router.name);
  document.at("model").get_to(router.model);
  document.at("heard").get_to(router.heard);
  document.at("item_blocks").get_to(router.blocks);
  document.at("items").get_to(router.items);
  document.at("awaits").get_to(router.awaited);
  return router;
}

}  // namespace

std::string leave_key(NodeId node) { return "leaving/" + std::to_string(node); }

std::string text_of(const LeaveProgress& progress) {
  if (progress.phase == LeaveProgress::Phase::drains) return "finishes its requests";
  if (progress.phase == LeaveProgress::Phase::left)
    return progress.whole ? "has left" : "has left; blocks that were not copied are computed again";
  std::string text;
  if (progress.user_blocks_open > 0)
    text = std::to_string(progress.user_blocks_open) + " of " + std::to_string(progress.user_blocks) +
           " user blocks to copy";
  for (const LeaveProgress::Router& router : progress.routers)
    text += (text.empty() ? "" : "; ") + router_text(router);
  return text.empty() ? "others have its blocks; waits for node.leave_time_min" : "waits for " + text;
}

json json_of(const LeaveProgress& progress) {
  json routers = json::array();
  for (const LeaveProgress::Router& router : progress.routers)
    routers.push_back({{"router", router.name},
                       {"model", router.model},
                       {"heard", router.heard},
                       {"item_blocks", router.blocks},
                       {"items", router.items},
                       {"awaits", router.awaited}});
  return {{"phase", phase_names[static_cast<std::size_t>(progress.phase)]},
          {"user_blocks", progress.user_blocks},
          {"user_blocks_open", progress.user_blocks_open},
          {"routers", std::move(routers)},
          {"whole", progress.whole}};
}

std::optional<LeaveProgress> parse_leave_progress(const std::string& text) {
  try {
    const json document = json::parse(text);
    LeaveProgress progress;
    const auto phase = document.at("phase").get<std::string>();
    std::size_t at = 0;
    while (at < phase_names.size() && phase_names[at] != phase) ++at;
    if (at == phase_names.size()) return std::nullopt;
    progress.phase = static_cast<LeaveProgress::Phase>(at);
    document.at("user_blocks").get_to(progress.user_blocks);
    document.at("user_blocks_open").get_to(progress.user_blocks_open);
    document.at("whole").get_to(progress.whole);
    for (const json& router : document.at("routers")) progress.routers.push_back(router_in(router));
    return progress;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace troupe::deploy
