// Tests the walks that follow when workers restart, fail or leave: no block stays missing behind a "done".
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "router/precompute/precompute.h"
#include "runtime/testing/catalog_test.h"

namespace troupe::router {
namespace precompute_restart_test {

const PromptForm form{{1, 2}, {3}, {}, {4}, 10, 100};
const NameContext names{"m", "l"};
constexpr int items_total = 24;

Item item(int n) {
  Item result{"item " + std::to_string(n), "", std::vector<Token>(3, n), n, {}};
  result.block = BlockNames(form, names).item(result.tokens);
  return result;
}

std::vector<Item> catalog() {
  std::vector<Item> items;
  for (int n = 1; n <= items_total; ++n) items.push_back(item(n));
  return items;
}

std::shared_ptr<const ItemAssignment> by_hash() {
  return std::make_shared<const ItemAssignment>(std::vector<NodeId>{1, 2, 3});
}

// Three workers that compute what they are sent, and an index that knows it at once.
struct Fleet {
  explicit Fleet(std::shared_ptr<const ItemAssignment> places)
      : precompute{{.blocks = ItemBlockKind::prefix,
                    .page_items = 10,
                    .chunk_tokens = 12,
                    .poll = {10},
                    .budget = {100},
                    .settle = {50},
                    .refresh = {.hot_share = 0, .away_after = {300}}},
                   workers,
                   leader,
                   form,
                   names,
                   std::move(places)} {}

  WorkerTable workers{{.heartbeat = {1'000'000'000}}, {1, 2, 3}};  // none falls silent
  LeaderView leader{{1}, {1'000'000'000}};
  Precompute precompute;
  std::uint64_t next_id = 5;
  std::map<BlockName, std::set<NodeId>> index;
  std::set<NodeId> up, full;
  Incarnation incarnation = 1;
  std::int64_t now = 0;
  int computed = 0, done_logged = 0;

  void act(const std::function<void(Step)>& step) {
    Effects effects;
    step({{now}, next_id, effects});
    for (const auto& effect : effects.list) {
      if (const auto* start = std::get_if<Effects::Start>(&effect))
        if (const auto* asked = std::get_if<ListItems>(&start->work)) list(start->job, *asked);
      if (const auto* send = std::get_if<Effects::Send>(&effect)) answer(send->to.node, send->message);
      if (const auto* log = std::get_if<Effects::Log>(&effect))
        done_logged += log->event == "precompute_done";
    }
  }
  void list(std::uint64_t job, const ListItems& asked) {
    ItemList page = list_of(catalog(), asked.from + asked.count >= items_total);
    page.items.erase(page.items.begin(), page.items.begin() + asked.from);
    page.items.resize(std::min<std::size_t>(page.items.size(), asked.count));
    act([&](Step step) { precompute.on_listed(step, job, page); });
  }
  void answer(NodeId node, const Message& message) {
    if (const auto* lookup = std::get_if<LookupBlocks>(&message)) {
      BlocksFound found{lookup->id};
      for (const BlockQuery& block : lookup->blocks) {
        const std::set<NodeId>& nodes = index[block.name];
        found.counts.push_back(static_cast<std::uint8_t>(nodes.size()));
        found.holders.insert(found.holders.end(), nodes.begin(), nodes.end());
      }
      act([&](Step step) { precompute.on_found(step, found); });
    } else if (!up.contains(node)) {
      return;
    } else if (std::holds_alternative<StatusRequest>(message)) {
      act([&](Step step) { precompute.on_status(step, StatusReply{1, node, Role::kv_worker, true}); });
    } else if (const auto* chunk = std::get_if<Execute>(&message)) {
      act([&](Step step) { precompute.on_executed(step, execute(node, *chunk)); });
    }
  }
  Executed execute(NodeId node, const Execute& chunk) {
    Executed executed{chunk.id, {}, {1}};
    for (std::size_t i = 0; i < chunk.blocks.size(); ++i) {
      if (chunk.plan.segments[i].kind != SegmentKind::item) continue;
      const SegmentBlock& block = chunk.blocks[i];
      const bool kept = !full.contains(node), pulled = block.at != 0;
      executed.reused.push_back(kept && pulled);
      if (!kept) continue;
      index[*block.name].insert(node);
      computed += !pulled;
      executed.blocks_written += !pulled;
    }
    return executed;
  }
  // Ends a worker. Returns the blocks that the index had of it.
  std::set<BlockName> end(NodeId node) {
    std::set<BlockName> its;
    for (auto& [name, holders] : index)
      if (holders.erase(node) > 0) its.insert(name);
    workers.lose(node);
    up.erase(node);
    act([&](Step step) { precompute.lose(step, std::vector<NodeId>{node}); });
    return its;
  }
  // Starts a worker with these blocks on its disk.
  void begin(NodeId node, const std::set<BlockName>& its = {}) {
    up.insert(node);
    for (const BlockName& name : its) index[name].insert(node);
    Heartbeat beat{.incarnation = ++incarnation, .sequence = 1};
    beat.models = {"m"};
    workers.hear({now}, node, beat);
  }
  void follow(const std::vector<NodeId>& nodes, const std::set<NodeId>& leaving) {
    workers.follow(nodes);
    act([&](Step step) { precompute.follow_members(step, leaving); });
  }
  void run(int ticks = 60) {
    for (int i = 0; i < ticks; ++i) {
      now += 10;
      act([&](Step step) { precompute.on_timer(step); });
      CHECK(precompute.check_bounds() == "");
    }
  }
  void start() {
    for (const NodeId node : {1, 2, 3}) workers.lose(node), begin(node);
    act([&](Step step) { precompute.start(step); });
    run();
    REQUIRE(precompute.state({now}) == "done");
  }
  NodeId holder() { return *index.at(item(1).block).begin(); }  // a worker with blocks
  // Returns how many items no node has except those in `except`.
  int missing(const std::set<NodeId>& except = {}) {
    return static_cast<int>(std::ranges::count_if(catalog(), [&](const Item& one) {
      return std::ranges::all_of(index[one.block], [&](NodeId node) { return except.contains(node); });
    }));
  }
};

TEST_CASE("precompute: after a rolling restart a worker may leave once the others have its blocks") {
  for (const bool planned : {true, false}) {
    CAPTURE(planned);
    Fleet f(planned ? by_hash() : nullptr);
    f.start();
    for (const NodeId node : {1, 2, 3}) f.begin(node, f.end(node));
    f.follow({1, 2, 3, 4}, {});
    f.begin(4);
    const NodeId leaving = f.holder();
    f.follow({1, 2, 3, 4}, {leaving});
    CHECK_FALSE(f.precompute.is_migration_done());
    f.run();
    CHECK(f.precompute.is_migration_done());
    CHECK(f.missing({leaving}) == 0);
    CHECK(f.computed == items_total);  // none was computed twice
    CHECK(f.precompute.state({f.now}) == "done");
  }
}

TEST_CASE("precompute: it is not done before the blocks that a restarted worker lost are made anew") {
  for (const bool planned : {true, false}) {
    CAPTURE(planned);
    Fleet f(planned ? by_hash() : nullptr);
    f.start();
    const NodeId node = f.holder();
    const int lost = static_cast<int>(f.end(node).size());
    CHECK(lost > 0);
    f.begin(node);
    CHECK(f.precompute.state({f.now}) == "running");
    f.run();
    CHECK(f.missing() == 0);
    CHECK(f.computed == items_total + lost);
    CHECK(f.precompute.state({f.now}) == "done");
    CHECK(f.done_logged == 2);
  }
}

TEST_CASE("precompute: without an assignment, too, others make the blocks of a worker that does not return") {
  Fleet f(nullptr);
  f.start();
  CHECK_FALSE(f.end(f.holder()).empty());
  f.run(20);
  CHECK(f.missing() > 0);  // it may be restarting
  CHECK_FALSE(f.precompute.is_migration_done());
  f.run();
  CHECK(f.missing() == 0);
  CHECK(f.precompute.is_migration_done());
}

TEST_CASE("precompute: a walk that began before a restarted worker was ready is not enough for it") {
  Fleet f(by_hash());
  f.start();
  const std::set<BlockName> lost = f.end(2);
  for (const BlockName& name : lost) f.index[name].insert(2);  // the index has not heard of it yet
  const std::set<BlockName> kept = f.end(1);
  f.begin(1, kept);
  f.run(5);
  CHECK(f.computed == items_total);
  for (const BlockName& name : lost) f.index[name].erase(2);
  f.begin(2);
  f.run(10);
  CHECK(f.missing() == 0);
  CHECK(f.computed == items_total + std::ssize(lost));
}

TEST_CASE(
    "precompute: progress of a migration names the nodes that are awaited and the blocks that are missing") {
  Fleet f(by_hash());
  f.start();
  const auto done = f.precompute.migration();
  CHECK(done.is_done);
  CHECK(done.awaited.empty());
  f.follow({1, 2, 3, 4}, {3});
  f.run(5);  // the new member was not heard yet
  const auto waiting = f.precompute.migration();
  CHECK_FALSE(waiting.is_done);
  CHECK(waiting.awaited == std::vector<NodeId>{4});
  f.begin(4);
  f.run();
  CHECK(f.precompute.migration().is_done);
}

TEST_CASE("precompute: a leaving worker does not wait for workers that are full") {
  Fleet f(by_hash());
  f.full = {1, 2, 3};
  for (const NodeId node : {1, 2, 3}) f.begin(node);
  f.act([&](Step step) { f.precompute.start(step); });
  f.run();
  CHECK(f.precompute.state({f.now}) == "full");
  f.follow({1, 2, 3}, {3});
  f.run();
  CHECK(f.precompute.is_migration_done());
}

}  // namespace precompute_restart_test
}  // namespace troupe::router
