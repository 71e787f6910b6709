// Tests that blocks which requests miss after the walk are made anew, as long as they are kept.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "router/precompute/precompute.h"
#include "runtime/testing/catalog_test.h"

namespace troupe::router {
namespace precompute_missed_test {

const PromptForm form{{1, 2}, {3}, {}, {4}, 10, 100};
const NameContext names{"m", "l"};

Item item(int n) { return {"item " + std::to_string(n), "", std::vector<Token>(3, n), n, {}}; }

// A worker with the blocks of two items, and a router whose walk is done.
struct Bench {
  explicit Bench(ItemBlockKind blocks = ItemBlockKind::movable,
                 std::shared_ptr<const ItemAssignment> assignment = nullptr)
      : precompute{{.blocks = blocks, .running_max = 1, .changed_max = 2},
                   workers,
                   leader,
                   form,
                   names,
                   std::move(assignment)} {}

  void walk() {
    precompute.start(at(0));
    precompute.on_status(at(1), StatusReply{1, 1, Role::kv_worker, true});
    std::uint64_t job = 0;
    for (const auto& effect : effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect)) job = start->job;
    precompute.on_listed(at(2), job, list_of({item(1), item(2)}, true));
    precompute.on_found(at(3), BlocksFound{sent<LookupBlocks>().value().id, {1, 1}, {1, 1}});
    REQUIRE(precompute.state({}) == "done");
  }
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
  void find(std::vector<std::uint8_t> counts) {
    precompute.on_found(at(3), BlocksFound{sent<LookupBlocks>().value().id, std::move(counts)});
  }
  void miss(const std::vector<Item>& items) { precompute.note_missing(at(4), views(items)); }
  // Misses the item; the chunk that is sent for it writes so many blocks.
  void miss_and_compute(const Item& missed, std::uint32_t written) {
    miss({missed});
    find({0});
    const auto chunk = sent<Execute>().value();
    CHECK(chunk.priority == Priority::background);
    precompute.on_executed(at(5), Executed{chunk.id, {}, {0}, written});
  }

  WorkerTable workers{{}, {1}};
  LeaderView leader{{1}, {200'000}};
  Precompute precompute;
  std::uint64_t next_id = 5;
  Effects effects;
};

TEST_CASE("precompute: it makes missing blocks of its kind and model during the walk and after it") {
  Bench b;
  const auto makes = [&](ItemBlockKind kind, std::string_view model) {
    return b.precompute.makes({0}, kind, model);
  };
  CHECK_FALSE(makes(ItemBlockKind::movable, "m"));  // not started
  b.precompute.start(b.at(0));
  CHECK(makes(ItemBlockKind::movable, "m"));
  CHECK_FALSE(makes(ItemBlockKind::prefix, "m"));
  CHECK_FALSE(makes(ItemBlockKind::movable, "m2"));
  b.miss({item(1)});
  CHECK(b.effects.list.empty());  // the walk is going to find it
  b.walk();
  CHECK(makes(ItemBlockKind::movable, "m"));
  Bench off(ItemBlockKind::none);
  off.precompute.start(off.at(0));
  CHECK_FALSE(off.precompute.makes({0}, ItemBlockKind::none, "m"));
}

TEST_CASE("precompute: an item that requests miss after the walk is looked up once and computed") {
  Bench b;
  b.walk();
  b.miss({item(1)});
  const auto asked = b.sent<LookupBlocks>();
  REQUIRE(asked.has_value());
  CHECK(asked->blocks ==
        std::vector<BlockQuery>{{BlockNames(form, names).item_alone(item(1).tokens), SegmentKind::item, 3}});
  b.miss({item(1)});
  CHECK(b.effects.list.empty());
  b.precompute.on_found(b.at(5), BlocksFound{asked->id, {0}});
  const auto chunk = b.sent<Execute>();
  REQUIRE(chunk.has_value());
  CHECK(chunk->blocks.at(0).owner == "item 1");
  b.miss({item(1)});
  CHECK(b.effects.list.empty());
  b.precompute.on_executed(b.at(6), Executed{chunk->id, {}, {0}, 1});
  CHECK(b.precompute.items_precomputed() == 1);
  CHECK(b.precompute.is_idle());
  b.miss({item(1)});  // evicted meanwhile
  CHECK(b.sent<LookupBlocks>().has_value());
  CHECK(b.precompute.check_bounds() == "");
}

TEST_CASE("precompute: while workers are too busy for background work, requests make their blocks") {
  Bench b;
  const auto makes = [&](std::int64_t us) { return b.precompute.makes({us}, ItemBlockKind::movable, "m"); };
  b.walk();
  CHECK(makes(3'600'000'000));  // nothing is to be done
  b.miss({item(1)});
  b.find({0});
  const auto chunk = b.sent<Execute>().value();
  CHECK(makes(5'000'003));
  CHECK_FALSE(makes(5'000'004));
  b.precompute.on_timer(b.at(6'000'000));
  CHECK_FALSE(makes(6'000'000));
  b.precompute.on_executed(b.at(7'000'000), Executed{chunk.id, {}, {0}, 1});
  CHECK(makes(7'000'000));
  CHECK(makes(3'600'000'000));
}

TEST_CASE("precompute: missed items wait up to a bound") {
  Bench b;
  b.walk();
  b.miss({item(1), item(2), item(3)});
  CHECK(b.sent<LookupBlocks>().value().blocks.size() == 2);
  CHECK(b.precompute.check_bounds() == "");
}

TEST_CASE("precompute: after two missed chunks in a row that are not kept, requests make their blocks") {
  Bench b;
  b.walk();
  b.miss_and_compute(item(1), 0);
  CHECK(b.precompute.state({}) == "done");
  b.miss_and_compute(item(2), 1);
  b.miss_and_compute(item(1), 0);
  CHECK(b.precompute.makes({5}, ItemBlockKind::movable, "m"));
  b.miss_and_compute(item(1), 0);
  CHECK(b.precompute.state({}) == "full");
  CHECK_FALSE(b.precompute.makes({5}, ItemBlockKind::movable, "m"));
  b.miss({item(2)});
  CHECK(b.effects.list.empty());
}

TEST_CASE("precompute: with an assignment, blocks of missed items do not evict others either") {
  Bench b(ItemBlockKind::movable,
          std::make_shared<const ItemAssignment>(std::vector<NodeId>{1},
                                                 ItemAssignment::Listed{{"item 9", placement::nowhere}}));
  b.walk();
  CHECK(b.precompute.makes_item("item 1"));
  CHECK_FALSE(b.precompute.makes_item("item 9"));
  for (int i = 0; i < 2; ++i) {
    b.miss({item(1)});
    b.find({0});
    const auto chunk = b.sent<Execute>().value();
    CHECK_FALSE(chunk.retention.belongs);
    b.precompute.on_executed(b.at(5), Executed{chunk.id, {}, {0}, 0});
  }
  CHECK(b.precompute.state({}) == "full");
}

}  // namespace precompute_missed_test
}  // namespace troupe::router
