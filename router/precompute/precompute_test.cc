#include "router/precompute/precompute.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "runtime/testing/catalog_test.h"
#include "runtime/testing/core_probe.h"

namespace troupe::router {
namespace precompute_test {

const PromptForm form{{1, 2}, {3}, {}, {4}, 10, 100};
const NameContext names{"m", "l"};

Item item(int n, std::size_t tokens = 3) {
  Item result{"item " + std::to_string(n), "", std::vector<Token>(tokens, n), n, {}};
  result.block = BlockNames(form, names).item(result.tokens);
  return result;
}

// Pages of 4 items, chunks of 6 tokens, one at a time; `effects` are those of the last call.
struct Bench {
  explicit Bench(ItemBlockKind blocks = ItemBlockKind::prefix, const PromptForm& prompts = form)
      : precompute{{.blocks = blocks,
                    .page_items = 4,
                    .chunk_tokens = 6,
                    .running_max = 1,
                    .changed_max = 2,
                    .poll = {10},
                    .pause = {50},
                    .lookup_wait = {100},
                    .budget = {1'000}},
                   workers,
                   leader,
                   prompts,
                   names} {}

  WorkerTable workers{{}, {1}};
  LeaderView leader{{1}, {200'000}};
  Precompute precompute;
  std::uint64_t next_id = 5;
  Effects effects;
  Step at(std::int64_t us) {
    effects = {};
    return {{us}, next_id, effects};
  }
  template <class T>
  std::optional<T> sent() const {
    for (const auto& effect : effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect))
        if (const auto* message = std::get_if<T>(&send->message)) return *message;
    return std::nullopt;
  }
  std::optional<std::pair<std::uint64_t, ListItems>> listing() const {
    for (const auto& effect : effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect))
        return std::pair{start->job, std::get<ListItems>(start->work)};
    return std::nullopt;
  }
  void list(std::int64_t us, std::vector<Item> items, bool last) {
    precompute.on_listed(at(us), listing()->first, list_of(std::move(items), last));
  }
  void find(std::int64_t us, std::vector<std::uint8_t> counts) {
    precompute.on_found(at(us), BlocksFound{sent<LookupBlocks>()->id, std::move(counts)});
  }
  // Ends the running chunk with `written` blocks. No segment was reused, except the system's if
  // `system_reused`.
  void execute(std::int64_t us, std::uint32_t written, bool system_reused = false) {
    const auto chunk = sent<Execute>();
    REQUIRE(chunk.has_value());
    std::vector<std::uint8_t> reused(chunk->plan.segments.size());
    reused.at(0) = system_reused;
    precompute.on_executed(at(us), Executed{chunk->id, {}, reused, written});
  }
  // The running chunk keeps nothing, the KV-cache worker says that it is ready, and the chunk is
  // tried again.
  void fruitless(bool system_reused = false) {
    execute(4, 0, system_reused);
    REQUIRE(precompute.state({}) == "waiting");
    REQUIRE_FALSE(sent<Execute>().has_value());
    precompute.on_timer(at(10));
    REQUIRE(sent<StatusRequest>().has_value());
    precompute.on_status(at(11), StatusReply{1, 1, Role::kv_worker, true});
  }
  void walk() {
    precompute.start(at(0));
    precompute.on_status(at(1), StatusReply{1, 1, Role::kv_worker, true});
  }
};

TEST_CASE("precompute: it starts when the KV-cache worker is ready, and asks until then") {
  Bench b;
  b.precompute.start(b.at(0));
  CHECK(b.sent<StatusRequest>().has_value());
  CHECK(b.precompute.state({}) == "waiting");
  b.precompute.on_status(b.at(1), StatusReply{1, 1, Role::kv_worker, false});
  CHECK_FALSE(b.listing().has_value());
  b.precompute.on_timer(b.at(10));
  CHECK(b.sent<StatusRequest>().has_value());
  CHECK_FALSE(b.precompute.on_status(b.at(11), StatusReply{1, 1, Role::allocator, true}));
  b.precompute.on_status(b.at(12), StatusReply{1, 1, Role::kv_worker, true});
  CHECK(b.listing()->second.from == 0);
  CHECK(b.precompute.state({}) == "running");
  CHECK_FALSE(b.precompute.is_idle());
}

TEST_CASE("precompute: only missing blocks are computed, in chunks, under the names that requests use") {
  Bench b;
  b.walk();
  b.list(2, {item(1), item(2), item(3), item(4)}, true);
  CHECK_FALSE(b.sent<LookupBlocks>()->count_access);
  b.find(3, {0, 1, 0, 0});
  const auto chunk = *b.sent<Execute>();
  CHECK(chunk.priority == Priority::background);
  CHECK(chunk.plan.readouts.empty());
  REQUIRE(chunk.plan.segments.size() == 3);  // 2 × 3 tokens
  CHECK(chunk.blocks[0].name == BlockNames(form, names).system());
  CHECK(chunk.blocks[1].name == item(1).block);
  CHECK(chunk.blocks[1].owner == "item 1");
  CHECK(chunk.plan.segments[1].start == 2);
  CHECK(chunk.plan.segments[2].sees == VisibleSegments{0});
  b.execute(4, 3);
  CHECK(b.precompute.items_precomputed() == 2);
  CHECK(b.sent<Execute>()->blocks.at(1).owner == "item 4");
  b.execute(5, 1, true);
  CHECK(b.precompute.items_precomputed() == 3);
  CHECK(b.precompute.state({}) == "done");
  CHECK(b.precompute.is_idle());
  b.precompute.add(b.at(6), item(9));
  CHECK_FALSE(b.precompute.is_idle());
  b.find(7, {0});
  CHECK_FALSE(b.precompute.is_idle());
  b.execute(8, 1, true);
  CHECK(b.precompute.is_idle());
}

TEST_CASE("precompute: movable blocks have the item mark, and the system prompt only if they see it") {
  for (const bool see_system : {false, true}) {
    PromptForm marked = form;
    marked.item = {7};
    marked.blocks_see_system = see_system;
    Bench b(ItemBlockKind::movable, marked);
    b.walk();
    b.list(2, {item(1)}, true);
    const BlockNames block_names(marked, names);
    const std::vector<Token> tokens{7, 1, 1, 1};
    const BlockName wanted = see_system ? block_names.item(tokens) : block_names.item_alone(tokens);
    const auto lookup = *b.sent<LookupBlocks>();
    CHECK(lookup.blocks.at(0).name == wanted);
    CHECK(lookup.blocks.at(0).tokens == 4);
    b.find(3, {0});
    const auto chunk = *b.sent<Execute>();
    REQUIRE(chunk.plan.segments.size() == (see_system ? 2 : 1));
    CHECK(chunk.blocks.back().name == wanted);
    CHECK(chunk.plan.segments.back().tokens == Tokens(tokens));
    CHECK(chunk.plan.segments.back().start == (see_system ? 2 : 0));
    CHECK((chunk.plan.segments.back().sees == VisibleSegments::all_before(see_system ? 1 : 0)));
    b.execute(4, see_system ? 2 : 1);
    CHECK(b.precompute.items_precomputed() == 1);
    CHECK(b.precompute.state({}) == "done");
    b.precompute.add(b.at(5), item(2));  // an item that is put is computed likewise
    CHECK(b.sent<LookupBlocks>()->blocks.at(0).name ==
          (see_system ? block_names.item(std::vector<Token>{7, 2, 2, 2})
                      : block_names.item_alone(std::vector<Token>{7, 2, 2, 2})));
  }
}

TEST_CASE("precompute: the walk continues page by page and skips items that do not fit") {
  Bench b;
  b.walk();
  b.list(2, {item(1), item(2, 9)}, false);
  b.find(3, {1});
  CHECK(b.listing()->second.from == 2);
  b.list(4, {item(3)}, true);
  b.find(5, {1});
  CHECK(b.precompute.state({}) == "done");
}

TEST_CASE("precompute: a full item area ends the walk, but put items are still tried") {
  Bench b;
  b.walk();
  b.list(2, {item(1), item(2), item(3), item(4)}, false);
  b.find(3, {0, 0, 0, 0});
  b.fruitless();
  b.execute(12, 0, true);
  CHECK(b.precompute.state({}) == "full");
  CHECK(b.effects.list.size() == 2);  // only the count and the log
  b.precompute.add(b.at(13), item(9));
  b.find(14, {0});
  b.execute(15, 1, true);
  CHECK(b.precompute.items_precomputed() == 1);
}

TEST_CASE("precompute: a chunk of one item with a held system prompt detects a full area") {
  Bench b;
  b.walk();
  b.list(2, {item(1, 7)}, false);
  b.find(3, {0});
  b.fruitless(true);
  b.execute(12, 0, true);
  CHECK(b.precompute.state({}) == "full");
}

TEST_CASE("precompute: a silent KV-cache worker that keeps nothing does not count as full") {
  Bench b;
  b.walk();
  b.list(2, {item(1), item(2)}, true);
  b.find(3, {0, 0});
  b.fruitless();
  b.execute(12, 3);
  CHECK(b.precompute.items_precomputed() == 2);
  CHECK(b.precompute.state({}) == "done");
}

TEST_CASE("precompute: an overloaded worker is tried again after a pause, a refused item only once") {
  Bench b;
  b.walk();
  b.list(2, {item(1)}, true);
  b.find(3, {0});
  b.precompute.on_refused(b.at(4), Refused{b.sent<Execute>()->id, {RefusalKind::unavailable, "overloaded"}});
  b.precompute.on_timer(b.at(20));
  CHECK_FALSE(b.sent<Execute>().has_value());
  b.precompute.on_timer(b.at(54));
  for (const std::int64_t us : {60, 160}) {
    REQUIRE(b.sent<Execute>().has_value());
    b.precompute.on_refused(b.at(us),
                            Refused{b.sent<Execute>()->id, {RefusalKind::unprocessable, "bad_plan"}});
    b.precompute.on_timer(b.at(us + 50));
  }
  CHECK_FALSE(b.sent<Execute>().has_value());
  CHECK(b.precompute.items_given_up() == 1);
  CHECK(b.precompute.state({}) == "done");
}

TEST_CASE("precompute: it recovers from a silent index and a lost plan") {
  Bench b;
  b.walk();
  b.list(2, {item(1)}, true);
  b.precompute.on_timer(b.at(102));
  const auto first = b.sent<Execute>();
  REQUIRE(first.has_value());
  b.precompute.on_timer(b.at(1'300));
  const auto second = b.sent<Execute>();
  REQUIRE(second.has_value());
  CHECK_FALSE(b.precompute.on_executed(b.at(1'301), Executed{first->id, {}, {0, 0}, 2}));
  CHECK(b.precompute.on_executed(b.at(1'302), Executed{second->id, {}, {0, 0}, 2}));
}

TEST_CASE("precompute: put items wait up to a bound, with the newest content and without deleted ones") {
  Bench b;
  b.precompute.start(b.at(0));
  b.precompute.add(b.at(1), item(1));
  b.precompute.add(b.at(1), item(2));
  b.precompute.add(b.at(1), item(3));  // one too many
  Item changed = item(7);
  changed.id = "item 1";
  b.precompute.add(b.at(2), changed);
  b.precompute.drop("item 2");
  b.precompute.on_status(b.at(3), StatusReply{1, 1, Role::kv_worker, true});
  CHECK(b.sent<LookupBlocks>()->blocks == std::vector<BlockQuery>{{item(7).block, SegmentKind::item, 3}});
}

// Three workers, of which the named ones are ready; chunks of one item.
struct Cluster {
  WorkerTable workers{{}, {1, 2, 3}};
  LeaderView leader{{1}, {200'000}};
  Precompute precompute{{.blocks = ItemBlockKind::prefix, .chunk_tokens = 1, .running_max = 3, .poll = {10}},
                        workers,
                        leader,
                        form,
                        names};
  std::uint64_t next_id = 5;
  Effects effects;

  Step at(std::int64_t us) {
    effects = {};
    return {{us}, next_id, effects};
  }
  void ready(NodeId node) { precompute.on_status(at(1), StatusReply{1, node, Role::kv_worker, true}); }
  // Returns the nodes and ids of the last call's chunks.
  std::vector<std::pair<NodeId, std::uint64_t>> chunks() const {
    std::vector<std::pair<NodeId, std::uint64_t>> found;
    for (const auto& effect : effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect))
        if (const auto* chunk = std::get_if<Execute>(&send->message))
          found.push_back({send->to.node, chunk->id});
    return found;
  }
  void walk(std::vector<NodeId> ready_ones) {
    precompute.start(at(0));
    ready(ready_ones.front());
    std::uint64_t job = 0;
    for (const auto& effect : effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect)) job = start->job;
    for (std::size_t i = 1; i < ready_ones.size(); ++i) ready(ready_ones[i]);
    const std::uint64_t lookup = next_id;
    precompute.on_listed(at(2), job, list_of({item(1), item(2), item(3), item(4)}, true));
    precompute.on_found(at(3), BlocksFound{lookup, {0, 0, 0, 0}});
  }
};

TEST_CASE("precompute: chunks go from worker to worker and skip those that are not ready") {
  Cluster c;
  c.walk({1, 3});
  const auto chunks = c.chunks();
  REQUIRE(chunks.size() == 3);
  CHECK(chunks[0].first == 1);
  CHECK(chunks[1].first == 3);
  CHECK(chunks[2].first == 1);
}

TEST_CASE("precompute: the chunks of a lost worker are computed elsewhere, once nothing else runs") {
  Cluster c;
  c.walk({1, 3});
  const auto before = c.chunks();
  REQUIRE(before.size() == 3);  // the second is on node 3
  c.workers.lose(3);
  c.precompute.lose(c.at(4), std::vector<NodeId>{3});
  CHECK(c.chunks().empty());
  c.precompute.on_executed(c.at(5), Executed{before[0].second, {}, {1, 0}, 1});
  CHECK(c.chunks().empty());
  c.precompute.on_executed(c.at(6), Executed{before[2].second, {}, {1, 0}, 1});
  REQUIRE(c.chunks().size() == 1);
  CHECK(c.chunks()[0].first == 1);
}

TEST_CASE("precompute: the walk ends when every live worker is full, not when one is") {
  Cluster c;
  c.workers.lose(2);
  c.walk({1, 3});
  std::map<NodeId, std::vector<std::uint64_t>> running;
  const auto take = [&] {
    for (const auto& [node, id] : c.chunks()) running[node].push_back(id);
  };
  take();
  const auto fruitless = [&](NodeId node) {
    REQUIRE_FALSE(running[node].empty());
    const std::uint64_t id = running[node].back();
    running[node].pop_back();
    c.precompute.on_executed(c.at(4), Executed{id, {}, {1, 0}, 0});
    take();
  };
  std::map<NodeId, int> tried;
  for (int round = 0; round < 10 && c.precompute.state({}) != "full"; ++round) {
    for (const NodeId node : {1, 3}) {
      c.ready(node);
      take();
    }
    for (const NodeId node : {1, 3})
      while (!running[node].empty() && c.precompute.state({}) != "full") ++tried[node], fruitless(node);
  }
  CHECK(c.precompute.state({}) == "full");
  CHECK(tried[1] >= 2);
  CHECK(tried[3] >= 2);
}

TEST_CASE("precompute: one full worker does not end the walk while another keeps blocks") {
  Cluster c;
  c.workers.lose(2);
  c.walk({1, 3});
  auto running = c.chunks();
  for (int i = 0; i < 40 && !running.empty(); ++i) {
    const auto [node, id] = running.front();
    running.erase(running.begin());
    c.precompute.on_executed(c.at(4), Executed{id, {}, {1, 0}, node == 3 ? 1U : 0U});
    for (const auto& chunk : c.chunks()) running.push_back(chunk);
    c.ready(1);
    for (const auto& chunk : c.chunks()) running.push_back(chunk);
  }
  CHECK(c.precompute.state({}) == "done");
  CHECK(c.precompute.items_precomputed() == 4);
}

// Forty items, some of them bad, on four workers; every answer may be lost. Reports the outcome of
// each item.
struct BadItems {
  enum class Way { refused, kills };
  WorkerTable workers{{.heartbeat = {1'000'000'000}}, {1, 2, 3, 4}};  // no worker falls silent
  LeaderView leader{{}, {200'000}};
  Precompute precompute{{.blocks = ItemBlockKind::prefix,
                         .chunk_tokens = 60,
                         .running_max = 2,
                         .pause = {5},
                         .lookup_wait = {100},
                         .budget = {1'000},
                         .settle = {0}},
                        workers,
                        leader,
                        form,
                        names};
  std::uint64_t next_id = 5;
  std::int64_t now = 0;
  std::set<std::string> bad;
  Way way = Way::refused;
  std::mt19937_64 random;
  std::uint64_t lost_percent = 0;

  std::deque<std::pair<NodeId, Execute>> running;
  std::set<std::string> made, given_up;
  int kills = 0;

  Effects effects;
  Step step() { return {{now}, next_id, effects}; }
  void take_effects() {
    std::vector<std::uint64_t> listings;
    for (auto& effect : effects.list) {
      if (auto* send = std::get_if<Effects::Send>(&effect)) {
        if (auto* chunk = std::get_if<Execute>(&send->message)) running.push_back({send->to.node, *chunk});
      } else if (const auto* listing = std::get_if<Effects::Start>(&effect)) {
        listings.push_back(listing->job);
      } else if (const auto* log = std::get_if<Effects::Log>(&effect)) {
        if (log->event == "precompute_gives_up") given_up.insert(log->fields.front().value);
      }
    }
    effects = {};
    CHECK(precompute.check_bounds() == "");
    for (const std::uint64_t job : listings) list(job), take_effects();
  }
  void list(std::uint64_t job) {
    std::vector<Item> items;
    for (int n = 0; n < 40; ++n) items.push_back(item(n));
    precompute.on_listed(step(), job, list_of(items, true));
  }
  void start() {
    workers.start({0});
    precompute.start(step());
    for (const NodeId node : {1, 2, 3, 4})
      precompute.on_status(step(), StatusReply{1, node, Role::kv_worker, true});
    take_effects();
  }
  void answer(NodeId node, const Execute& chunk) {
    if (chunk.alone) CHECK(running.empty());
    const bool fails = std::any_of(chunk.blocks.begin(), chunk.blocks.end(),
                                   [&](const SegmentBlock& block) { return bad.contains(block.owner); });
    if (fails && way == Way::kills) {
      ++kills;
      std::erase_if(running, [&](const auto& other) { return other.first == node; });
      precompute.lose(step(), std::vector<NodeId>{node});
      precompute.on_status(step(), StatusReply{1, node, Role::kv_worker, true});
      return;
    }
    if (!fails)
      for (const SegmentBlock& block : chunk.blocks) made.insert(block.owner);
    if (random() % 100 < lost_percent) return;
    if (fails) {
      precompute.on_refused(step(), Refused{chunk.id, {RefusalKind::unavailable, "device_failed", "it did"}});
    } else {
      precompute.on_executed(
          step(),
          Executed{
              chunk.id, {}, std::vector<std::uint8_t>(1), static_cast<std::uint32_t>(chunk.blocks.size())});
    }
  }
  void run() {
    start();
    for (int round = 0; round < 5'000 && precompute.state({now}) != "done"; ++round) {
      if (running.empty()) {
        now += 500;
        precompute.on_timer(step());
      } else {
        ++now;
        const auto [node, chunk] = running.front();
        running.pop_front();
        answer(node, chunk);
      }
      take_effects();
    }
    CHECK(precompute.state({now}) == "done");
  }
  // Checks that bad items are given up and all others are computed.
  void judge() {
    run();
    CHECK(given_up == bad);
    CHECK(precompute.items_given_up() == bad.size());
    for (int n = 0; n < 40; ++n) {
      const std::string id = "item " + std::to_string(n);
      CHECK(made.contains(id) != bad.contains(id));
    }
  }
};

TEST_CASE("precompute: a bad item is found by halving and given up, the others are computed") {
  BadItems b;
  b.bad = {"item 7", "item 8", "item 39"};
  b.judge();
}

TEST_CASE("precompute: an item that kills the worker that computes it does so twice") {
  BadItems b;
  b.way = BadItems::Way::kills;
  b.bad = {"item 13"};
  b.judge();
  CHECK(b.kills == 2);
}

TEST_CASE("precompute: with random losses only bad items are given up, and the walk ends") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    BadItems b;
    b.random.seed(seed);
    b.way = seed % 2 == 0 ? BadItems::Way::kills : BadItems::Way::refused;
    b.lost_percent = seed % 3 * 5;
    for (std::uint64_t n = b.random() % 4; n > 0; --n)
      b.bad.insert("item " + std::to_string(b.random() % 40));
    b.judge();
    CHECK(b.kills <= 2 * static_cast<int>(b.bad.size()));
  }
}

TEST_CASE("precompute: another model restarts the walk under its own names") {
  Bench b;
  b.walk();
  b.list(2, {item(1)}, true);
  b.find(3, {1});
  CHECK(b.precompute.state({}) == "done");
  b.precompute.follow(b.at(4), "m", "");
  CHECK(b.precompute.state({}) == "done");
  b.precompute.follow(b.at(5), "m2", "");
  CHECK(b.precompute.state({}) == "running");
  b.list(6, {item(1)}, true);
  CHECK(b.sent<LookupBlocks>()->blocks ==
        std::vector<BlockQuery>{{BlockNames(form, {"m2", "l"}).item(item(1).tokens), SegmentKind::item, 3}});
  b.find(7, {0});
  CHECK(b.sent<Execute>()->model_version == "m2");
}

TEST_CASE("precompute: an item put or hot under another model is looked up by that model's name") {
  Bench b;
  b.walk();
  b.list(2, {item(1)}, true);
  b.find(3, {1});
  b.precompute.follow(b.at(4), "m2", "");
  b.list(5, {item(1)}, true);
  b.find(6, {1});
  b.precompute.add(b.at(7), item(9));
  const BlockName own = BlockNames(form, {"m2", "l"}).item(item(9).tokens);
  CHECK(own != item(9).block);
  CHECK(b.sent<LookupBlocks>()->blocks == std::vector<BlockQuery>{{own, SegmentKind::item, 3}});
  b.find(8, {0});
  CHECK(b.sent<Execute>()->model_version == "m2");
  CHECK(b.sent<Execute>()->blocks.at(1).name == own);
}

TEST_CASE("precompute: an item made hot by users of another model is looked up by the current model's name") {
  Bench b;
  b.walk();
  Item others = item(9);
  others.block = BlockNames(form, {"m2", "l"}).item(others.tokens);
  b.precompute.add(b.at(2), others);
  CHECK(b.sent<LookupBlocks>()->blocks == std::vector<BlockQuery>{{item(9).block, SegmentKind::item, 3}});
}

TEST_CASE("precompute: if plans look up no item blocks, it says so and does nothing") {
  Bench b;
  Precompute precompute({}, b.workers, b.leader, form, names);
  std::uint64_t next_id = 1;
  Effects effects;
  precompute.start({{0}, next_id, effects});
  REQUIRE(effects.list.size() == 1);
  const auto* log = std::get_if<Effects::Log>(&effects.list.front());
  REQUIRE(log);
  CHECK(log->event == "precompute_off");
  effects = {};
  precompute.add({{1}, next_id, effects}, item(1));
  CHECK(effects.list.empty());
  CHECK(precompute.state({}) == "off");
}

}  // namespace precompute_test
}  // namespace troupe::router
