#include "deploy/plan_file.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>

namespace troupe::deploy {

namespace {

using nlohmann::json;
using placement::ItemNumber;
using placement::NodeNumber;
using placement::Place;
using placement::Placement;

std::string id_of(const std::vector<std::string>& ids, std::uint64_t item) {
  return ids.empty() ? std::to_string(item) : ids[item];
}

EarlierPlacement parse_placement(const json& plan, const std::string& name) {
  for (const json& one : plan.at("placements")) {
    if (one.at("name").get<std::string>() != name) continue;
    EarlierPlacement earlier;
    earlier.nodes = placement::checked_nodes(one.at("nodes").get<std::vector<NodeNumber>>());
    earlier.everywhere = one.at("everywhere").get<std::vector<std::string>>();
    for (const auto& [node, ids] : one.at("shards").items())
      earlier.shards[static_cast<NodeNumber>(std::stoul(node))] = ids.get<std::vector<std::string>>();
    for (const auto& [node, ids] : earlier.shards)
      if (!std::ranges::binary_search(earlier.nodes, node))
        throw std::invalid_argument("shards of node " + std::to_string(node) + ", which is not among nodes");
    return earlier;
  }
  throw std::invalid_argument("there is no placement " + name);
}

// The items of both plans: those of the catalog, then those that it does not have any more.
class Universe {
 public:
  explicit Universe(const std::vector<std::string>& ids, std::uint64_t items) : items_(items) {
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

Placement earlier_placement(const EarlierPlacement& earlier, Universe& universe, std::uint64_t items) {
  Placement old(earlier.nodes, items);
  const auto put = [&](const std::string& id, Place place) {
    const ItemNumber item = universe.number(id);
    if (item >= old.items()) old.add_items(item + 1 - old.items());
    old.put(item, place);
  };
  for (const std::string& id : earlier.everywhere) put(id, placement::everywhere);
  for (const auto& [node, ids] : earlier.shards) {
    const auto at = std::ranges::lower_bound(old.nodes(), node) - old.nodes().begin();
    for (const std::string& id : ids) put(id, static_cast<Place>(at));
  }
  return old;
}

}  // namespace

json placement_list(const Placement& placement, const std::vector<std::string>& ids) {
  if (placement.items() > listed_items_max)
    throw std::invalid_argument("--json lists every item, and there are " +
                                std::to_string(placement.items()) + "; expected at most " +
                                std::to_string(listed_items_max));
  json everywhere = json::array();
  std::vector<json> shards(placement.nodes().size(), json::array());
  for (std::uint64_t item = 0; item < placement.items(); ++item) {
    const Place place = placement.place(static_cast<ItemNumber>(item));
    if (place != placement::nowhere)
      (place == placement::everywhere ? everywhere : shards[place]).push_back(id_of(ids, item));
  }
  json by_node = json::object();
  for (std::size_t node = 0; node < shards.size(); ++node)
    by_node[std::to_string(placement.nodes()[node])] = std::move(shards[node]);
  return {
      {"nodes", placement.nodes()}, {"everywhere", std::move(everywhere)}, {"shards", std::move(by_node)}};
}

EarlierPlacement read_placement(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read; expected a plan that plan --json wrote");
  try {
    return parse_placement(json::parse(file), name);
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what() + "; expected a plan that plan --json wrote");
  }
}

Placement known_part(const EarlierPlacement& earlier, std::uint64_t items,
                     const std::vector<std::string>& ids) {
  Universe universe(ids, items);
  const Placement all = earlier_placement(earlier, universe, items);
  Placement known(all.nodes(), items);
  for (std::uint64_t i = 0; i < items; ++i) {
    const auto item = static_cast<ItemNumber>(i);
    known.put(item, all.place(item));
  }
  return known;
}

PlanMoves moves_from(const EarlierPlacement& earlier, const Placement& next, const placement::Items& items,
                     const std::vector<std::string>& ids) {
  Universe universe(ids, items.count());
  const Placement old = earlier_placement(earlier, universe, items.count());
  Placement all = next;
  all.add_items(old.items() - next.items());
  PlanMoves result{.moves = moves(old, all), .items = items.count(), .removed_ids = universe.take_removed()};
  for (std::size_t i = 0; i < result.moves.size(); ++i) {
    const placement::Move& move = result.moves[i];
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
  for (const placement::Move& move : moves.moves) {
    const bool removed = move.item >= moves.items;
    json one{{"item", removed ? moves.removed_ids[move.item - moves.items] : id_of(ids, move.item)},
             {"node", move.node}};
    if (move.gains) {
      one["get_from"] = move.from;  // 0: compute it
    } else {
      one["drop"] = true;
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace troupe::deploy
