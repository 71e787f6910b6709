// Tests with block names of which containers see only the first byte: a block under another name with
// that byte must never be taken for the wanted one. actors/kv_worker/kv_worker_random_test.cc runs in
// this program too.
#include <doctest/doctest.h>

#include <vector>

#include "actors/cache_meta/block_index.h"
#include "actors/testing/block_index_test.h"
#include "actors/testing/kv_worker_test.h"
#include "mutants.h"
#include "runtime/pool/page_pool.h"
#include "runtime/testing/core_probe.h"

namespace troupe::actors {
namespace {
using namespace kv_worker_test;

[[maybe_unused]] const int cut_names = mutation::name_bits = 8;

BlockName twin(BlockName name) {  // another name that looks the same to containers
  name.bytes[31] = 1;
  return name;
}
BlockWant twin(BlockWant want) {
  want.name = twin(want.name);
  return want;
}

TEST_CASE("colliding names: the pool finds a block that is not identical, and keeps its own name") {
  PagePool pool(pool_sizes(10, 4, {6, 4}));
  const std::uint64_t generation = pool.reserve({name(1), SegmentKind::item, "owner", 4})->generation;
  REQUIRE(pool.commit(name(1), generation, 100));
  REQUIRE(pool.find(twin(name(1))));
  CHECK_FALSE(identical(pool.find(twin(name(1)))->name, twin(name(1))));
  CHECK_FALSE(pool.find(name(2)));
}

TEST_CASE("colliding names: in the index they share an entry that keeps the first name and owner") {
  BlockIndex index(10);
  index.add(1, {name(1), SegmentKind::item, "first", 4, 1});
  index.add(2, {twin(name(1)), SegmentKind::item, "second", 4, 2});
  CHECK(index.blocks() == 1);
  CHECK(holders(index, twin(name(1)), {}, 0, 9) == std::vector<NodeId>{1, 2});
  index.add(1, {twin(name(1)), SegmentKind::user, "ann", 4, 3});
  CHECK(*index.owner_of(name(1)) == "first");
  index.remove(1, {name(1), 3});
  index.remove(2, {name(1), 2});
  CHECK(index.blocks() == 0);
  CHECK(index.check_bounds() == "");
}

TEST_CASE("colliding names: a KV-cache worker answers a miss, also while the other block is written") {
  Bench b;
  const auto first = b.acquire(0, {item(1)});
  CHECK(b.acquire(1, {twin(item(1))}).at(0).grant == Grant::none);  // at once
  b.release(2, 1, 1, first.at(0), Outcome::written);
  CHECK(b.acquire(3, {twin(item(1))}).at(0).grant == Grant::none);
  AcquireBlocks ask{9, 0, {twin(item(1)), item(1)}};
  ask.read_only = true;
  b.probe.receive(4, far, ask);
  CHECK(b.granted().at(0).grant == Grant::none);
}

TEST_CASE("colliding names: of two stored blocks one is loaded as itself, and neither saved as the other") {
  Bench b({.pool = pool_sizes(4, 4, {3, 1}),
           .pulls = true,
           .store = true,
           .tier = {.warm_load_blocks = 2, .back_off = {500}}});
  const BlockWant other = twin(item(1));
  const StoredBlock one{name(1), SegmentKind::item, "item 1", 4},
      two{other.name, SegmentKind::item, "item 1", 4};
  b.probe.start();
  b.probe.done(1, b.probe.started<ListStored>().at(0).first, StoredList{{one, two}});
  const auto loads = b.probe.started<LoadBlocks>();
  REQUIRE(loads.size() == 1);
  REQUIRE(loads[0].second.blocks.size() == 1);
  CHECK(identical(loads[0].second.blocks[0].name, other.name));
  b.probe.done(2, loads[0].first, BlockLoadResult{{BlockLoad::corrupt}});
  REQUIRE(b.probe.started<EraseBlocks>().size() == 1);
  b.write(3, item(2));
  const std::uint64_t save = b.probe.started<SaveBlock>().at(0).first;
  b.write(3, item(3));
  b.write(4, item(1));  // its save waits
  b.forget(5, Forget{SegmentKind::item, "item 1", 1});
  b.write(6, other);
  b.probe.done(7, save, BlockSaveResult{true, ""});
  REQUIRE(b.probe.started<SaveBlock>().size() == 1);
  CHECK(identical(b.probe.started<SaveBlock>()[0].second.block.name, other.name));
}

}  // namespace
}  // namespace troupe::actors
