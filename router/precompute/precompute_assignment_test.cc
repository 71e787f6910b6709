// Tests the walk with an item assignment: each block gets to its assigned nodes.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "router/precompute/precompute.h"
#include "runtime/testing/catalog_test.h"

namespace troupe::router {
namespace {

const PromptForm form{{1, 2}, {3}, {}, {4}, 10, 100};
const NameContext names{"m", "l"};

Item item(int n) {
  Item result{"item " + std::to_string(n), "", std::vector<Token>(3, n), n, {}};
  result.block = BlockNames(form, names).item(result.tokens);
  return result;
}

// Three workers and forty assigned items; workers do as they are asked, and the index knows at
// once.
struct Placed {
  WorkerTable workers{{.heartbeat = {1'000'000'000}}, {1, 2, 3}};
  LeaderView leader{{1}, {1'000'000'000}};
  std::shared_ptr<const ItemAssignment> places = std::make_shared<const ItemAssignment>(
      std::vector<NodeId>{1, 2, 3}, ItemAssignment::Listed{{"item 1", placement::everywhere},
                                                           {"item 2", placement::everywhere},
                                                           {"item 3", placement::nowhere}});
  RefreshConfig refresh{.hot_share = 0};
  Duration plan_every{0};
  Precompute precompute{{.blocks = ItemBlockKind::prefix,
                         .page_items = 10,
                         .chunk_tokens = 12,
                         .poll = {10},
                         .budget = {100},
                         .plan_every = plan_every,
                         .refresh = refresh},
                        workers,
                        leader,
                        form,
                        names,
                        places};
  std::uint64_t next_id = 5;
  std::map<BlockName, std::set<NodeId>> index;
  std::set<NodeId> up, dead;  // dead nodes return at the next tick
  std::set<NodeId> unready;   // live nodes whose KV-cache workers are not ready
  Incarnation incarnation = 1;
  std::int64_t now = 0;
  int computed = 0, pulled = 0, killed = 0, walks = 0;
  int done_logged = 0;
  int forgets = 0;          // so many chunks, each its last block
  std::set<NodeId> full;    // keep nothing of the walk
  std::string poison;       // id of an item that kills
  PlacementRead next_plan;  // what the next reading of the plan gives
  int plan_reads = 0, plans_refused = 0, plans_followed = 0;
  ItemNumber listed_to = 0;  // listing is slow from this item on

  std::vector<Item> catalog() const {
    std::vector<Item> items;
    for (int n = 1; n <= 40; ++n) items.push_back(item(n));
    return items;
  }
  void act(const std::function<void(Step)>& step) {
    Effects effects;
    step({{now}, next_id, effects});
    for (const auto& effect : effects.list) {
      if (const auto* start = std::get_if<Effects::Start>(&effect)) {
        if (const auto* asked = std::get_if<ListItems>(&start->work)) list(start->job, *asked);
        if (std::holds_alternative<ReadPlacement>(start->work)) read_plan(start->job);
      }
      if (const auto* send = std::get_if<Effects::Send>(&effect)) answer(send->to.node, send->message);
      if (const auto* log = std::get_if<Effects::Log>(&effect)) {
        done_logged += log->event == "precompute_done";
        plans_refused += log->event == "placement_refused";
        plans_followed += log->event == "placement_changed";
      }
    }
  }
  void read_plan(std::uint64_t job) {
    ++plan_reads;
    const PlacementRead read = std::exchange(next_plan, {});
    act([&](Step step) { CHECK(precompute.on_plan_read(step, job, read)); });
  }
  void list(std::uint64_t job, const ListItems& asked) {
    walks += asked.from == 0;
    if (listed_to > 0 && asked.from == listed_to) return;
    ItemList page = list_of(catalog(), asked.from + asked.count >= 40);
    page.items.erase(page.items.begin(), page.items.begin() + asked.from);
    page.items.resize(std::min<std::size_t>(page.items.size(), asked.count));
    act([&](Step step) { precompute.on_listed(step, job, page); });
  }
  void answer(NodeId node, const Message& message) {
    if (const auto* lookup = std::get_if<LookupBlocks>(&message)) {
      CHECK(lookup->all_holders);
      BlocksFound found{lookup->id};
      for (const BlockQuery& block : lookup->blocks) {
        const std::set<NodeId>& nodes = index[block.name];
        found.counts.push_back(static_cast<std::uint8_t>(nodes.size()));
        found.holders.insert(found.holders.end(), nodes.begin(), nodes.end());
      }
      act([&](Step step) { precompute.on_found(step, found); });
    } else if (std::holds_alternative<StatusRequest>(message)) {
      if (up.contains(node) && !unready.contains(node))
        act([&](Step step) { precompute.on_status(step, StatusReply{1, node, Role::kv_worker, true}); });
    } else if (const auto* chunk = std::get_if<Execute>(&message)) {
      if (!up.contains(node)) return;
      if (kills(*chunk)) {
        ++killed, dead.insert(node);
        return end(node);
      }
      act([&](Step step) { precompute.on_executed(step, execute(node, *chunk)); });
    }
  }
  Executed execute(NodeId node, const Execute& chunk) {
    Executed executed{chunk.id, {}, {1}};
    for (std::size_t i = 0; i < chunk.blocks.size(); ++i) {
      const SegmentBlock& block = chunk.blocks[i];
      if (chunk.plan.segments[i].kind != SegmentKind::item) continue;
      const bool there = block.at != 0 && index[*block.name].contains(block.at);
      const bool forgotten = forgets > 0 && i + 1 == chunk.blocks.size() && executed.blocks_written > 0;
      forgets -= forgotten;
      const bool kept = (!full.contains(node) && !forgotten) || chunk.retention.belongs;
      executed.reused.push_back(there && kept);
      if (!kept) continue;
      CHECK(index[*block.name].insert(node).second);
      ++(there ? pulled : computed);
      executed.blocks_written += !there;
    }
    return executed;
  }
  bool kills(const Execute& chunk) const {
    return std::ranges::any_of(
        chunk.blocks, [&](const SegmentBlock& block) { return !poison.empty() && block.owner == poison; });
  }
  void end(NodeId node) {
    for (auto& [name, holders] : index) holders.erase(node);
    workers.lose(node);
    up.erase(node);
    act([&](Step step) { precompute.lose(step, std::vector<NodeId>{node}); });
  }
  void begin(NodeId node) {
    up.insert(node);
    Heartbeat beat{.incarnation = ++incarnation, .sequence = 1};
    beat.models = {"m"};
    workers.hear({now}, node, beat);
  }
  void run(int ticks = 60) {
    for (int i = 0; i < ticks; ++i) {
      now += 10;
      act([&](Step step) { precompute.on_timer(step); });
      CHECK(precompute.check_bounds() == "");
      for (const NodeId node : std::set<NodeId>(dead)) dead.erase(node), begin(node);
    }
  }
  void start(const std::vector<NodeId>& there = {1, 2, 3}) {
    for (const NodeId node : {1, 2, 3}) workers.lose(node);
    for (const NodeId node : there) begin(node);
    act([&](Step step) { precompute.start(step); });
  }
  void request(int n, int times) {
    for (int i = 0; i < times; ++i)
      act([&](Step step) { precompute.note_accesses(step, views(std::vector{item(n)}), 0); });
  }
  std::set<NodeId> holders(int n) { return index[item(n).block]; }
  void check(const std::set<NodeId>& there) {
    for (const Item& one : catalog()) {
      std::set<NodeId> expected;
      if (one.id != poison)
        for (const NodeId node : places->nodes_of(one.id))
          if (there.contains(node)) expected.insert(node);
      CHECK(index[one.block] == expected);
    }
    CHECK(precompute.state({now}) == "done");
  }
};

TEST_CASE("precompute: each block reaches its assigned nodes, computed once and pulled by the others") {
  Placed p;
  p.start();
  p.run();
  p.check({1, 2, 3});
  CHECK(p.computed == 39);  // one item is assigned to no node
  CHECK(p.pulled == 4);
}

TEST_CASE("precompute: a node that comes late or returns gets its blocks") {
  Placed p;
  p.start({2, 3});
  p.run();
  p.check({2, 3});
  CHECK(p.pulled == 2);  // items of all nodes are computed by one of the present nodes
  p.begin(1);
  p.run();
  p.check({1, 2, 3});
  p.end(3);
  p.run();
  p.check({1, 2});
  p.pulled = 0;
  p.begin(3);
  p.run();
  p.check({1, 2, 3});
  CHECK(p.pulled == 2);
}

TEST_CASE("precompute: it is done once each live node has its blocks, also one that is ready late") {
  Placed p;
  p.unready = {3};
  p.start();
  p.run();
  CHECK(p.holders(1) == std::set<NodeId>{1, 2});
  CHECK(p.precompute.state({p.now}) == "running");
  CHECK(p.done_logged == 0);
  p.unready.clear();
  p.run();
  p.check({1, 2, 3});
  CHECK(p.done_logged == 1);
  p.run();
  CHECK(p.done_logged == 1);
}

TEST_CASE("precompute: blocks of a chunk that were not kept are found by another walk") {
  Placed p;
  p.forgets = 2;
  p.start();
  p.run();
  p.check({1, 2, 3});
  CHECK(p.forgets == 0);
}

TEST_CASE("precompute: a node that lacks the model gets its blocks once it has it") {
  Placed p;
  Heartbeat other{.incarnation = 9, .sequence = 1};
  other.models = {"older"};
  p.start({1, 3});
  p.up.insert(2);
  p.workers.hear({p.now}, 2, other);
  p.run();
  p.check({1, 3});
  other.sequence = 2;
  other.models = {"older", "m"};
  p.workers.hear({p.now}, 2, other);
  p.run();
  p.check({1, 2, 3});
}

TEST_CASE("precompute: a full node does not keep the others from their blocks") {
  Placed p;
  p.full = {2};
  p.start();
  p.run();
  p.check({1, 3});
}

TEST_CASE("precompute: an item that kills workers does so twice, on one node or on all") {
  for (const char* poison : {"item 1", "item 5", "item 6", "item 7"}) {
    CAPTURE(poison);
    Placed p;
    p.poison = poison;
    p.start();
    p.run(200);
    p.check({1, 2, 3});
    CHECK(p.killed == 2);
    CHECK(p.precompute.items_given_up() == 1);
  }
}

TEST_CASE("precompute: a changed plan is followed without a restart, and one for other nodes is refused") {
  Placed p{.plan_every = {50}};
  p.start();
  p.run();
  CHECK(p.plan_reads > 5);
  const int walks = p.walks;
  p.check({1, 2, 3});
  p.computed = p.pulled = 0;
  const auto listed = std::make_shared<const ListedItems>(ListedItems{
      {"item 1", placement::everywhere}, {"item 2", 0}, {"item 3", 2}, {"item 4", placement::everywhere}});
  p.next_plan = {.items = listed, .nodes = {1, 2}};
  p.run();
  CHECK(p.walks == walks);
  p.next_plan = {.why = "damaged"};
  p.run();
  CHECK(p.walks == walks);
  p.next_plan = {.items = listed, .nodes = {1, 2, 3}};
  p.run();
  CHECK(p.walks == walks + 1);
  CHECK(p.holders(3) == std::set<NodeId>{3});
  CHECK(p.holders(4) == std::set<NodeId>{1, 2, 3});
  CHECK(p.holders(2) == std::set<NodeId>{1, 2, 3});  // no block is dropped
  CHECK(p.computed == 1);
  CHECK(p.pulled == 2);
}

// Hot with ten of the last twenty accesses; away after thirty ticks.
constexpr RefreshConfig quick{.hot_share = 0.5, .window = 20, .away_after = {300}};

TEST_CASE("hot items: they are pulled at once by the nodes that lack them, and only once") {
  Placed p{.refresh = quick};
  p.start();
  p.run();
  p.pulled = p.computed = 0;
  p.request(7, 9);
  CHECK(p.holders(7).size() == 1);
  p.request(7, 1);
  CHECK(p.holders(7) == std::set<NodeId>{1, 2, 3});
  CHECK(p.pulled == 2);
  CHECK(p.computed == 0);
  CHECK(p.precompute.items_hot() == 1);
  p.request(7, 20);
  p.request(1, 20);  // on all nodes by plan
  CHECK(p.precompute.items_hot() == 0);
  CHECK(p.pulled == 2);
  p.request(3, 10);  // on no node by plan: computed once, pulled by the others
  CHECK(p.holders(3) == std::set<NodeId>{1, 2, 3});
  CHECK(p.computed == 1);
  CHECK(p.pulled == 4);
}

TEST_CASE("hot items: Algorithm 1's threshold applies to the accesses that come after the decision") {
  Placed p{.refresh = {.window = 64, .replication = {.on = true, .item_pages = 1'000}}};
  p.start();
  p.run();
  const PullCost pulls(0.25);
  const auto review = [&] { p.act([&](Step step) { p.precompute.review_hot_items(step, {}, pulls); }); };
  p.request(7, 20);
  CHECK(p.precompute.items_hot() == 0);
  CHECK_FALSE(p.precompute.replication());
  CHECK(p.precompute.hot_share() == 0);
  review();
  REQUIRE(p.precompute.replication());
  CHECK(p.precompute.replication()->threshold.accesses == 20);
  CHECK(p.precompute.replication()->threshold.items == 1);
  CHECK(p.holders(7).size() == 1);
  p.request(7, 1);
  CHECK(p.precompute.items_hot() == 1);
  CHECK(p.precompute.hot_share() == 1);
  CHECK(p.holders(7) == std::set<NodeId>{1, 2, 3});
  p.request(9, 64);
  CHECK(p.precompute.items_hot() == 1);  // the other one, by the same threshold
  CHECK(p.holders(9) == std::set<NodeId>{1, 2, 3});
}

TEST_CASE("hot items: with memory for no block, no item is hot by Algorithm 1") {
  Placed p{.refresh = {.window = 64, .replication = {.on = true, .item_pages = 2}}};
  p.start();
  p.run();
  const PullCost pulls(0.25);
  p.request(7, 60);
  p.act([&](Step step) { p.precompute.review_hot_items(step, {}, pulls); });
  REQUIRE(p.precompute.replication());
  p.request(7, 60);
  CHECK(p.precompute.items_hot() == 0);
  CHECK(p.holders(7).size() == 1);
}

TEST_CASE("hot items: hot and put items evict others on a full node, the walk does not") {
  Placed p{.refresh = quick, .full = {2}};
  p.start();
  p.run();
  p.check({1, 3});
  p.request(7, 10);
  CHECK(p.holders(7) == std::set<NodeId>{1, 2, 3});
  int put = 41;
  while (p.places->nodes_of(item(put).id) != std::vector<NodeId>{2}) ++put;
  p.act([&](Step step) { p.precompute.add(step, item(put)); });
  CHECK(p.holders(put) == std::set<NodeId>{2});
}

TEST_CASE("hot items: one reaches a full node while the walk continues elsewhere") {
  Placed p{.refresh = quick, .full = {2}, .listed_to = 10};
  p.start({1, 2});
  p.run(10);
  CHECK(p.precompute.state({p.now}) == "running");
  CHECK_FALSE(p.holders(1).contains(2));
  p.request(7, 10);
  p.run(3);
  CHECK(p.precompute.state({p.now}) == "running");
  CHECK(p.holders(7) == std::set<NodeId>{1, 2});
}

TEST_CASE("hot items: one reaches a full node that comes later, the walk's blocks do not") {
  Placed p{.refresh = quick, .full = {2}};
  p.start({1, 3});
  p.run();
  p.request(7, 10);
  CHECK(p.holders(7) == std::set<NodeId>{1, 3});
  p.begin(2);
  p.run();
  CHECK(p.holders(7) == std::set<NodeId>{1, 2, 3});
  for (int n = 1; n <= 40; ++n)
    if (n != 7) CHECK_FALSE(p.holders(n).contains(2));
}

TEST_CASE(
    "precompute: a node that comes after others stood in for it gets its blocks, even if they are "
    "full") {
  Placed p{.refresh = quick, .full = {1, 2}};
  p.start({1, 2});
  p.run();
  CHECK(p.precompute.state({p.now}) == "full");
  p.begin(3);
  p.run();
  CHECK(p.holders(1) == std::set<NodeId>{3});
  p.check({3});
}

TEST_CASE("precompute: others stand in for a node that is away for long, and it gets its blocks back") {
  Placed p{.refresh = quick};
  p.start();
  p.run();
  const auto before = p.index;
  std::set<BlockName> its;  // blocks that only node 3 has
  for (const auto& [name, holders] : before)
    if (holders == std::set<NodeId>{3}) its.insert(name);
  p.pulled = p.computed = p.walks = 0;
  p.end(3);
  p.run(25);
  CHECK(p.computed == 0);  // it may be restarting
  p.run();
  CHECK(p.computed == std::ssize(its));
  CHECK(p.pulled == 0);
  CHECK(p.walks == 1);
  for (const auto& [name, holders] : p.index)
    CHECK(holders.size() == (before.at(name).empty() ? 0
                             : its.contains(name)    ? 1
                                                     : before.at(name).size() - before.at(name).contains(3)));
  p.computed = 0;
  p.begin(3);
  p.run();
  CHECK(p.computed == 0);
  CHECK(p.pulled == std::ssize(its) + 2);  // and the items that belong on all nodes
  CHECK(p.walks == 2);                     // one more walk, when it is ready
  for (const auto& [name, holders] : before) CHECK(std::ranges::includes(p.index.at(name), holders));
}

// Applies the unchanged assignment to these nodes.
void follow(Placed& p, std::vector<NodeId> nodes, std::set<NodeId> leaving = {}) {
  std::vector<NodeId> staying = nodes;
  std::erase_if(staying, [&](NodeId node) { return leaving.contains(node); });
  p.workers.follow(std::move(nodes));
  p.places = std::make_shared<const ItemAssignment>(p.places->over(staying));
  p.act([&](Step step) { p.precompute.follow_members(step, leaving); });
}

TEST_CASE("precompute: a joined node pulls its blocks, and none is computed again") {
  Placed p;
  p.start();
  p.run();
  CHECK(p.precompute.is_migration_done());
  p.computed = p.pulled = 0;
  follow(p, {1, 2, 3, 4});
  p.run();  // the new member was not heard yet
  CHECK_FALSE(p.precompute.is_migration_done());
  p.begin(4);
  p.run();
  CHECK(p.computed == 0);
  CHECK(p.pulled > 4);
  for (const Item& one : p.catalog())
    for (const NodeId node : p.places->nodes_of(one.id)) CHECK(p.index[one.block].contains(node));
  CHECK(p.precompute.is_migration_done());
}

// Plan that has each item on the last of these nodes.
PlacementRead plan_of_last(const std::vector<NodeId>& nodes) {
  ListedItems listed;
  for (int n = 1; n <= 40; ++n) listed[item(n).id] = static_cast<placement::NodeIndex>(nodes.size() - 1);
  return {.items = std::make_shared<const ListedItems>(std::move(listed)), .nodes = nodes};
}

TEST_CASE("precompute: a plan for workers that join later is refused once, and followed when they have") {
  Placed p{.plan_every = {50}};
  p.start();
  p.run();
  p.next_plan = plan_of_last({1, 2, 3, 4, 5});
  p.run();
  CHECK(p.plans_refused == 1);
  follow(p, {1, 2, 3, 4});
  p.begin(4);
  p.run();
  CHECK(p.plans_refused == 1);
  CHECK(p.plans_followed == 0);
  follow(p, {1, 2, 3, 4, 5});
  p.begin(5);
  p.run();
  CHECK(p.plans_refused == 1);
  CHECK(p.plans_followed == 1);
  for (int n = 1; n <= 40; ++n) CHECK(p.holders(n).contains(5));
  follow(p, {1, 2, 3, 4});
  follow(p, {1, 2, 3, 4, 5});
  CHECK(p.plans_followed == 1);
}

TEST_CASE("precompute: a refused plan is replaced by a later one, and kept if that is damaged") {
  Placed p{.plan_every = {50}};
  p.start();
  p.run();
  p.next_plan = plan_of_last({1, 2, 3, 4});
  p.run();
  p.next_plan = plan_of_last({1, 2, 3});
  p.run();
  CHECK(p.plans_followed == 1);
  follow(p, {1, 2, 3, 4});
  CHECK(p.plans_followed == 1);
  p.next_plan = plan_of_last({1, 2, 4});
  p.run();
  p.next_plan = {.why = "damaged"};
  p.run();
  CHECK(p.plans_refused == 3);
  follow(p, {1, 2, 4});
  CHECK(p.plans_followed == 2);
}

TEST_CASE("precompute: blocks of a leaving node are pulled to their new nodes before it may go") {
  Placed p;
  p.start();
  p.run();
  p.computed = p.pulled = 0;
  Heartbeat draining{.incarnation = p.incarnation, .sequence = 9, .draining = true};
  draining.models = {"m"};
  p.workers.hear({p.now}, 3, draining);
  follow(p, {1, 2, 3}, {3});
  p.run();
  CHECK(p.precompute.is_migration_done());
  CHECK(p.computed == 0);
  CHECK(p.pulled > 4);
  p.pulled = 0;
  p.end(3);
  follow(p, {1, 2});
  p.run();
  CHECK(p.computed + p.pulled == 0);  // all blocks were there already
  for (const Item& one : p.catalog())
    for (const NodeId node : p.places->nodes_of(one.id)) CHECK(p.index[one.block].contains(node));
}

TEST_CASE("precompute: a node that has not started is awaited until others stand in, a full one is not") {
  Placed p;
  p.start();
  p.run();
  follow(p, {1, 2, 3, 4});
  p.run(5);
  CHECK_FALSE(p.precompute.is_migration_done());
  p.now += 30'000'000;
  p.run();
  CHECK(p.precompute.is_migration_done());
  p.full = {5};
  follow(p, {1, 2, 3, 4, 5});
  p.begin(5);
  p.run();
  CHECK(p.precompute.is_migration_done());
  follow(p, {1, 2, 3, 4, 5, 6});
  p.begin(6);
  p.workers.hear({p.now}, 6, {.incarnation = p.incarnation, .sequence = 2, .models = {"another"}});
  p.run();
  CHECK(p.precompute.is_migration_done());
}

TEST_CASE(
    "precompute: a leaving node takes no more blocks, even before it drains and without an assignment") {
  WorkerTable workers({}, {1, 2, 3});
  Heartbeat ready{.incarnation = 5, .sequence = 1};
  ready.models = {"m"};
  BackgroundCapacity capacity(workers, 8);
  for (const NodeId node : {1, 2, 3}) {
    workers.hear({1}, node, ready);
    capacity.hear_ready(node);
  }
  std::set<NodeId> asked;
  for (int i = 0; i < 6; ++i) asked.insert(capacity.next({2}, "m", true));
  CHECK(asked == std::set<NodeId>{1, 2, 3});
  capacity.follow({2});
  asked.clear();
  for (int i = 0; i < 6; ++i) asked.insert(capacity.next({2}, "m", true));
  CHECK(asked == std::set<NodeId>{1, 3});
  for (const NodeId node : {1, 3})
    for (int i = 0; i < 3; ++i) capacity.keep_nothing(node), capacity.hear_ready(node);
  CHECK(capacity.none_has_capacity({2}));
}

}  // namespace
}  // namespace troupe::router
