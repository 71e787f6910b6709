// Writes a placement plan (which node keeps the blocks of which item) as JSON, and finds its moves
// against an earlier one.
#include "deploy/lab/planning/plan_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>

namespace troupe::deploy {

namespace {

using nlohmann::json;
using placement::ItemNumber;
using placement::NodeIndex;
using placement::Placement;

std::string id_of(const std::vector<std::string>& ids, std::uint64_t item) {
  return ids.empty() ? std::to_string(item) : ids[item];
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
