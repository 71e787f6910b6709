// Reads one placement of a plan file, and refuses a file in which nodes or items contradict each
// other.
#include "deploy/data/placement_file.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string_view>

#include "runtime/config/whole_file.h"
#include "runtime/wire/json_bounds.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;
using placement::NodeNumber;

constexpr std::string_view expected_plan = "a plan that plan --json wrote";

[[noreturn]] void refuse(const std::string& what, std::string_view expected) {
  throw std::invalid_argument(what + "; expected " + std::string(expected));
}

NodeNumber node_of(const json& number) {
  constexpr std::uint64_t node_max = std::numeric_limits<NodeNumber>::max();
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() > node_max)
    refuse("nodes has " + number.dump().substr(0, 40), "numbers of nodes");
  return number.get<NodeNumber>();
}

NodeNumber node_of(const std::string& key) {
  NodeNumber node = 0;
  const char* const end = key.data() + key.size();
  const auto [last, error] = std::from_chars(key.data(), end, node);
  if (error != std::errc() || last != end)
    refuse("shards has \"" + key.substr(0, 40) + "\"", "the number of a node as the name of each list");
  return node;
}

// Sorts instead of hashing, because the ids come from a file and could be chosen to collide.
void check_each_once(const PreviousPlacement& plan) {
  std::vector<std::string_view> all(plan.everywhere.begin(), plan.everywhere.end());
  all.insert(all.end(), plan.nowhere.begin(), plan.nowhere.end());
  for (const auto& [node, ids] : plan.shards) all.insert(all.end(), ids.begin(), ids.end());
  std::ranges::sort(all);
  if (const auto twice = std::ranges::adjacent_find(all); twice != all.end())
    refuse("item \"" + std::string(twice->substr(0, 40)) + "\" is listed twice", "each item in one list");
}

PreviousPlacement parse_placement(const json& plan, const std::string& name) {
  for (const json& one : plan.at("placements")) {
    if (one.at("name").get<std::string>() != name) continue;
    PreviousPlacement earlier;
    for (const json& node : one.at("nodes")) earlier.nodes.push_back(node_of(node));
    earlier.nodes = placement::validated_nodes(std::move(earlier.nodes));
    earlier.everywhere = one.at("everywhere").get<std::vector<std::string>>();
    if (one.contains("nowhere")) earlier.nowhere = one.at("nowhere").get<std::vector<std::string>>();
    for (const auto& [key, ids] : one.at("shards").items()) {
      const NodeNumber node = node_of(key);
      if (!std::ranges::binary_search(earlier.nodes, node))
        refuse("shards of node " + std::to_string(node) + ", which is not among nodes", "those of its nodes");
      if (!earlier.shards.emplace(node, ids.get<std::vector<std::string>>()).second)
        refuse("shards of node " + std::to_string(node) + " are given twice", "one list for each node");
    }
    check_each_once(earlier);
    return earlier;
  }
  refuse("there is no placement " + name, expected_plan);
}

// Rejects duplicate member names; the library would keep the last one.
json parse_each_member_once(std::string_view text) {
  // member names seen so far, for each object that is still open
  std::vector<std::set<std::string>> open;
  return json::parse(text.begin(), text.end(), [&open](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      refuse("\"" + parsed.get<std::string>().substr(0, 40) + "\" is given twice", "each member once");
    return true;
  });
}

}  // namespace

PreviousPlacement read_placement(const std::string& path, const std::string& name,
                                 const PlanFileBounds& bounds) {
  const auto fail = [&path](const std::string& what) -> PreviousPlacement {
    throw std::runtime_error(path + ": " + what);
  };
  const std::string otherwise = "; expected " + std::string(expected_plan);
  const std::string text = read_whole_file(path, bounds.bytes_max, expected_plan);
  if (const std::string excess = exceeded_bound(text, {.values_max = bounds.values_max, .depth_max = 16});
      !excess.empty())
    return fail("has " + excess + otherwise);
  try {
    return parse_placement(parse_each_member_once(text), name);
  } catch (const std::invalid_argument& error) {  // its text says what was expected
    return fail(error.what());
  } catch (const std::exception& error) {
    return fail(error.what() + otherwise);
  }
}

}  // namespace troupe::deploy
