// Reads and writes a placement plan (which node keeps the blocks of which item) as JSON, with each
// placement's predicted figures.
#include "deploy/planning/plan_file.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "runtime/config/whole_file.h"
#include "runtime/wire/json_bounds.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;
using placement::ItemNumber;
using placement::NodeIndex;
using placement::NodeNumber;
using placement::Placement;

std::string id_of(const std::vector<std::string>& ids, std::uint64_t item) {
  return ids.empty() ? std::to_string(item) : ids[item];
}

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

// Items of both plans: those of the catalog first, then those that left it.
class JointItems {
 public:
  explicit JointItems(const std::vector<std::string>& ids, std::uint64_t items) : items_(items) {
    numbers_.reserve(items);
    for (std::uint64_t item = 0; item < items; ++item)
      numbers_.emplace(id_of(ids, item), static_cast<ItemNumber>(item));
  }
  ItemNumber number(const std::string& id) {
    const auto [at, is_new] = numbers_.emplace(id, static_cast<ItemNumber>(items_ + removed_.size()));
    if (is_new) removed_.push_back(id);
    return at->second;
  }
  std::vector<std::string> take_removed() { return std::move(removed_); }

 private:
  std::uint64_t items_;
  std::unordered_map<std::string, ItemNumber> numbers_;
  std::vector<std::string> removed_;
};

Placement earlier_placement(const PreviousPlacement& earlier, JointItems& universe, std::uint64_t items) {
  Placement old(earlier.nodes, items);
  const auto put = [&](const std::string& id, NodeIndex place) {
    const ItemNumber item = universe.number(id);
    if (item >= old.items()) old.add_items(item + 1 - old.items());
    old.put(item, place);
  };
  // Items on no node need no entry: that is the default, and one that left the catalog needs no
  // move.
  for (const std::string& id : earlier.everywhere) put(id, placement::everywhere);
  for (const auto& [node, ids] : earlier.shards) {
    const auto at = std::ranges::lower_bound(old.nodes(), node) - old.nodes().begin();
    for (const std::string& id : ids) put(id, static_cast<NodeIndex>(at));
  }
  return old;
}

}  // namespace

json placement_list(const Placement& placement, const std::vector<std::string>& ids) {
  if (placement.items() > listed_items_max)
    throw std::invalid_argument("--json lists every item, but there are " +
                                std::to_string(placement.items()) + "; expected at most " +
                                std::to_string(listed_items_max));
  json everywhere = json::array(), nowhere = json::array();
  std::vector<json> shards(placement.nodes().size(), json::array());
  for (std::uint64_t item = 0; item < placement.items(); ++item) {
    const NodeIndex place = placement.place(static_cast<ItemNumber>(item));
    json& list = place == placement::everywhere ? everywhere
                 : place == placement::nowhere  ? nowhere
                                                : shards[place];
    list.push_back(id_of(ids, item));
  }
  json by_node = json::object();
  for (std::size_t node = 0; node < shards.size(); ++node)
    by_node[std::to_string(placement.nodes()[node])] = std::move(shards[node]);
  return {{"nodes", placement.nodes()},
          {"everywhere", std::move(everywhere)},
          {"nowhere", std::move(nowhere)},
          {"shards", std::move(by_node)}};
}

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

Placement known_part(const PreviousPlacement& earlier, std::uint64_t items,
                     const std::vector<std::string>& ids) {
  JointItems universe(ids, items);
  const Placement all = earlier_placement(earlier, universe, items);
  Placement known(all.nodes(), items);
  for (std::uint64_t i = 0; i < items; ++i) {
    const auto item = static_cast<ItemNumber>(i);
    known.put(item, all.place(item));
  }
  return known;
}

PlanMoves moves_from(const PreviousPlacement& earlier, const Placement& next, const placement::Items& items,
                     const std::vector<std::string>& ids) {
  JointItems universe(ids, items.count());
  const Placement old = earlier_placement(earlier, universe, items.count());
  Placement all = next;
  all.add_items(old.items() - next.items());
  PlanMoves result{.moves = moves(old, all), .items = items.count(), .removed_ids = universe.take_removed()};
  for (std::size_t i = 0; i < result.moves.size(); ++i) {
    const placement::PlacementMove& move = result.moves[i];
    result.changed_items += i == 0 || move.item != result.moves[i - 1].item;
    result.losses += !move.gains;
    if (!move.gains) continue;
    ++result.gains;
    result.computed += move.from == 0;
    result.gained_bytes += items.bytes(move.item);
  }
  return result;
}

json moves_list(const PlanMoves& moves, const std::vector<std::string>& ids) {
  json list = json::array();
  for (const placement::PlacementMove& move : moves.moves) {
    const bool removed = move.item >= moves.items;
    json one{{"item", removed ? moves.removed_ids[move.item - moves.items] : id_of(ids, move.item)},
             {"node", move.node}};
    if (move.gains) {
      one["get_from"] = move.from;  // 0: compute the block
    } else {
      one["drop"] = true;
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace troupe::deploy
