// The walk with places: each block gets to the nodes where it belongs.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "router/precompute.h"

namespace troupe::router {
namespace {

const PromptForm form{{1, 2}, {3}, {}, {4}, 10, 100};
const NameContext names{"m", "l"};

Item item(int n) {
  Item result{"item " + std::to_string(n), "", std::vector<Token>(3, n), n, {}};
  result.block = item_block(form, names, result.tokens);
  return result;
}

// Three workers and forty items with places; workers do as they are told, and the index knows at once.
struct Placed {
  WorkerTable workers{{.heartbeat = {1'000'000'000}}, {1, 2, 3}};
  LeaderView leader{{1}, {1'000'000'000}};
  std::shared_ptr<const ItemPlaces> places = std::make_shared<const ItemPlaces>(
      std::vector<NodeId>{1, 2, 3}, ItemPlaces::Listed{{"item 1", placement::everywhere},
                                                       {"item 2", placement::everywhere},
                                                       {"item 3", placement::nowhere}});
  Precompute precompute{
      {.on = true, .page_items = 10, .chunk_tokens = 12, .poll = {10}}, workers, leader, form, names, places};
  std::uint64_t next_id = 5;
  std::map<BlockName, std::set<NodeId>> index;
  int computed = 0, pulled = 0, full = 0;  // full: a node that keeps nothing

  std::vector<Item> catalog() const {
    std::vector<Item> items;
    for (int n = 1; n <= 40; ++n) items.push_back(item(n));
    return items;
  }
  void act(const std::function<void(Turn)>& step) {
    Effects effects;
    step({{10}, next_id, effects});
    for (const auto& effect : effects.list) {
      if (const auto* start = std::get_if<Effects::Start>(&effect))
        list(start->job, std::get<ListItems>(start->work));
      if (const auto* send = std::get_if<Effects::Send>(&effect)) answer(send->to.node, send->message);
    }
  }
  void list(std::uint64_t job, const ListItems& asked) {
    const std::vector<Item> all = catalog();
    auto next = std::ranges::find(all, asked.after, &Item::id);
    next = next == all.end() ? all.begin() : next + 1;
    ItemList page;
    while (page.items.size() < asked.count && next != all.end()) page.items.push_back(*next++);
    page.last = next == all.end();
    act([&](Turn turn) { precompute.on_listed(turn, job, page); });
  }
  void answer(NodeId node, const Message& message) {
    if (const auto* lookup = std::get_if<LookupBlocks>(&message)) {
      CHECK(lookup->all_holders);
      BlocksFound found{lookup->id};
      for (const BlockName& name : lookup->item_blocks) {
        found.item_counts.push_back(static_cast<std::uint8_t>(index[name].size()));
        found.item_holders.insert(found.item_holders.end(), index[name].begin(), index[name].end());
      }
      act([&](Turn turn) { precompute.on_found(turn, found); });
    } else if (const auto* chunk = std::get_if<Execute>(&message)) {
      act([&](Turn turn) { precompute.on_executed(turn, execute(node, *chunk)); });
    }
  }
  Executed execute(NodeId node, const Execute& chunk) {
    Executed executed{chunk.id, {}, {1}};
    for (const PlannedSegment& segment : chunk.segments) {
      if (segment.kind != SegmentKind::item) continue;
      const bool there = segment.at != 0 && index[*segment.block].contains(segment.at);
      executed.reused.push_back(there && node != static_cast<NodeId>(full));
      if (node == static_cast<NodeId>(full)) continue;
      CHECK(index[*segment.block].insert(node).second);
      ++(there ? pulled : computed);
      executed.blocks_written += !there;
    }
    return executed;
  }
  void ready(NodeId node) {
    act([&](Turn turn) { precompute.on_status(turn, StatusReply{1, node, Role::kv_worker, true}); });
  }
  void check(const std::vector<NodeId>& there) {
    for (const Item& one : catalog()) {
      std::set<NodeId> expected;
      for (const NodeId node : places->nodes_of(one.id))
        if (std::ranges::find(there, node) != there.end()) expected.insert(node);
      CHECK(index[one.block] == expected);
    }
    CHECK(precompute.check_bounds() == "");
  }
};

TEST_CASE("with places each block gets where it belongs: computed once, pulled by the others") {
  Placed p;
  p.act([&](Turn turn) { p.precompute.start(turn); });
  for (const NodeId node : {1, 2, 3}) p.ready(node);
  CHECK(p.precompute.state() == "done");
  p.check({1, 2, 3});
  CHECK(p.computed == 39);  // one is nowhere
  CHECK(p.pulled == 4);
}

TEST_CASE("what a lost node had is there again when it is") {
  Placed p;
  p.act([&](Turn turn) { p.precompute.start(turn); });
  p.ready(1), p.ready(3);
  p.check({1, 3});
  CHECK(p.precompute.state() == "done");
  p.ready(2);
  p.check({1, 2, 3});
  for (auto& [name, holders] : p.index) holders.erase(3);
  p.act([&](Turn turn) { p.precompute.lose(turn, std::vector<NodeId>{3}); });
  p.check({1, 2});
  p.pulled = 0;
  p.ready(3);
  p.check({1, 2, 3});
  CHECK(p.pulled == 2);
  CHECK(p.precompute.state() == "done");
}

TEST_CASE("a node that is full does not keep the others from theirs") {
  Placed p;
  p.full = 2;
  p.act([&](Turn turn) { p.precompute.start(turn); });
  for (int i = 0; i < 4; ++i)
    for (const NodeId node : {1, 2, 3}) p.ready(node);
  p.check({1, 3});
  CHECK(p.precompute.state() == "done");
}

}  // namespace
}  // namespace troupe::router
