#include <functional>
#include <random>

#include "actors/kv_worker/stored_blocks.h"
#include "actors/testing/kv_worker_test.h"

namespace troupe::actors {
namespace {

using namespace kv_worker_test;

StoredBlock stored(std::uint8_t n, SegmentKind kind = SegmentKind::item) {
  return {name(n), kind, "item " + std::to_string(n), 4, 1'000U + n};
}
const Refusal disk_is_away{RefusalKind::unavailable, "store_failed", "no disk", "store", "a disk"};

// Three item pages of four tokens; loads of two blocks; back-off of 500 us after a failure.
struct StoreBench : Bench {
  static KvWorkerConfig small() {
    return {.pool = pool_sizes(4, 4, {3, 1}),
            .pulls = true,
            .store = true,
            .tier = {.warm_load_blocks = 2, .back_off = {500}}};
  }
  explicit StoreBench(const KvWorkerConfig& config = small()) : Bench(config) {}
  std::vector<BlockName> erased() const {  // by the latest effects
    std::vector<BlockName> names;
    for (const auto& [job, work] : probe.started<EraseBlocks>())
      names.insert(names.end(), work.names.begin(), work.names.end());
    return names;
  }
  void start_warm(std::vector<StoredBlock> blocks) {  // as many as the pool takes
    start(std::move(blocks));
    for (const auto& load : probe.started<LoadBlocks>())
      probe.done(2, load.first, BlockLoadResult{std::vector(load.second.blocks.size(), BlockLoad::sound)});
  }
  void start(std::vector<StoredBlock> blocks) {
    probe.start();
    probe.done(1, probe.started<ListStored>().at(0).first, StoredList{std::move(blocks)});
  }
  bool ready(std::int64_t us) {
    probe.receive(us, server, StatusRequest{1});
    return probe.sent<StatusReply>().at(0).ready;
  }
};

TEST_CASE("stored blocks: lookups by name, owner and age agree with a plain list") {
  struct Plain {
    std::vector<StoredBlock> blocks;  // oldest first
    std::vector<BlockName> names(const std::function<bool(const StoredBlock&)>& wanted,
                                 std::size_t most) const {
      std::vector<BlockName> names;
      for (const StoredBlock& block : blocks)
        if (names.size() < most && wanted(block)) names.push_back(block.name);
      return names;
    }
  } plain;
  constexpr std::size_t most = 12;
  StoredBlocks known(most);
  std::mt19937 random(3);
  for (int step = 0; step < 3'000; ++step) {
    CAPTURE(step);
    const auto n = static_cast<std::uint8_t>(random() % 20);
    const auto is_named = [&](const StoredBlock& block) { return identical(block.name, name(n)); };
    StoredBlock block{name(n), random() % 2 == 0 ? SegmentKind::item : SegmentKind::user,
                      "owner " + std::to_string(random() % 3), 4, random()};
    std::erase_if(plain.blocks, is_named);
    if (random() % 3 == 0) {
      known.erase(block.name);
    } else {
      known.add(block);
      if (plain.blocks.size() < most) plain.blocks.push_back(block);
    }
    REQUIRE(known.blocks() == plain.blocks.size());
    REQUIRE(known.full() == (plain.blocks.size() == most));
    const auto there = std::ranges::find_if(plain.blocks, is_named);
    const StoredBlock* const found = known.find(name(n));
    REQUIRE((found != nullptr) == (there != plain.blocks.end()));
    if (found) REQUIRE(found->checksum == there->checksum);
    const auto of_owner = plain.names(
        [&](const StoredBlock& one) { return one.kind == block.kind && one.owner == block.owner; }, most);
    REQUIRE(std::ranges::is_permutation(known.names_of(block.kind, block.owner), of_owner));
    const auto is_kept = [](const BlockName& one) { return one.bytes[0] % 3 == 0; };
    REQUIRE(known.oldest(4, is_kept) ==
            plain.names([&](const StoredBlock& one) { return !is_kept(one.name); }, 4));
  }
}

TEST_CASE("store: a warm start fills the item area, system prompt first, and then the worker is ready") {
  StoreBench b;
  b.start({stored(1), stored(2), stored(3), stored(4), stored(9, SegmentKind::system)});
  const auto loads = b.probe.started<LoadBlocks>();
  REQUIRE(loads.size() == 2);
  REQUIRE(loads[0].second.blocks.size() == 2);
  CHECK(loads[0].second.blocks[0].name == name(9));
  CHECK(loads[0].second.blocks[0].checksum == 1'009);
  CHECK(loads[1].second.blocks.size() == 1);  // three pages in total
  CHECK_FALSE(b.ready(2));
  b.probe.done(3, loads[0].first, BlockLoadResult{{BlockLoad::sound, BlockLoad::sound}});
  CHECK(b.sent_changes().added.size() == 2);
  CHECK(b.probe.counted(Metric::item_blocks_loaded) == 2);
  CHECK_FALSE(b.ready(4));
  b.probe.done(5, loads[1].first, BlockLoadResult{{BlockLoad::sound}});
  CHECK(b.ready(6));
  CHECK(b.acquire(7, {item(1)}).at(0).grant == Grant::read);
}

TEST_CASE("store: a block with wrong bytes on disk is dropped, erased and computed anew") {
  StoreBench b;
  b.start({stored(1), stored(2)});
  const auto load = b.probe.started<LoadBlocks>().at(0);
  CHECK(b.acquire(2, {item(1)}).empty());  // waits for the load
  b.probe.done(3, load.first, BlockLoadResult{{BlockLoad::corrupt, BlockLoad::sound}});
  CHECK(b.probe.counted(Metric::blocks_corrupt) == 1);
  REQUIRE(b.probe.started<EraseBlocks>().size() == 1);
  CHECK(b.probe.started<EraseBlocks>()[0].second.names == std::vector<BlockName>{name(1)});
  CHECK(b.probe.sent<BlocksAcquired>().at(0).grants.at(0).grant == Grant::write);
  CHECK(b.ready(4));
}

TEST_CASE("store: a store that cannot be listed does not keep the worker from being ready") {
  StoreBench b;
  b.probe.start();
  b.probe.done(1, b.probe.started<ListStored>().at(0).first, disk_is_away);
  CHECK(b.ready(2));
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "store") == "resting after a failure");
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "degraded").starts_with("blocks are neither saved"));
  CHECK(b.acquire(3, {item(1)}).at(0).grant == Grant::write);
  CHECK(b.ready(600));
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "store") == "on");
}

TEST_CASE(
    "store: a failed listing is repeated after the back-off, and its blocks are loaded on demand only") {
  StoreBench b;
  b.probe.start();
  b.probe.done(1, b.probe.started<ListStored>().at(0).first, disk_is_away);
  b.probe.run_until(500);
  CHECK(b.probe.started<ListStored>().empty());
  b.probe.run_until(501);
  REQUIRE(b.probe.started<ListStored>().size() == 1);
  const std::uint64_t second = b.probe.started<ListStored>()[0].first;
  CHECK(b.ready(502));
  b.probe.done(503, second, StoredList{{stored(1)}});
  CHECK(b.probe.started<LoadBlocks>().empty());
  CHECK(b.acquire(504, {item(1)}).empty());
  CHECK(b.probe.started<LoadBlocks>().size() == 1);
}

TEST_CASE("store: a block being erased does not count as stored, whatever a listing says") {
  StoreBench b;
  b.probe.start();
  b.probe.done(1, b.probe.started<ListStored>().at(0).first, disk_is_away);
  b.write(2, item(1));
  b.probe.run_until(501);
  const auto list = b.probe.started<ListStored>().at(0).first;
  b.probe.done(502, b.probe.started<SaveBlock>().at(0).first, BlockSaveResult{true, ""});
  b.forget(503, Forget{SegmentKind::item, "item 1", 1});
  CHECK(b.erased() == std::vector{name(1)});
  b.probe.done(504, list, StoredList{{stored(1)}});
  CHECK(b.acquire(505, {item(1)}).at(0).grant == Grant::write);
}

TEST_CASE("store: a save finds a block damaged in memory and removes it; the disk stays in use") {
  StoreBench b;
  b.start({});
  b.write(2, item(1));
  b.probe.done(3, b.probe.started<SaveBlock>().at(0).first, BlockSaveResult{false, "no match", true});
  CHECK(b.probe.counted(Metric::blocks_corrupt) == 1);
  CHECK(b.core.pool().find(name(1)) == nullptr);
  CHECK(b.sent_changes().removed.size() == 1);
  CHECK(b.probe.started<SaveBlock>().empty());
  b.write(4, item(2));
  REQUIRE(b.probe.started<SaveBlock>().size() == 1);
  CHECK(b.probe.started<SaveBlock>()[0].second.block.name == name(2));
}

TEST_CASE("store: a newer block with the damaged block's name stays") {
  StoreBench b;
  b.start({});
  b.write(2, item(1));
  const auto save = b.probe.started<SaveBlock>().at(0).first;
  b.forget(3, Forget{SegmentKind::item, "item 1", 1});
  b.write(4, item(1));
  b.probe.done(5, save, BlockSaveResult{false, "no match", true});
  CHECK(b.core.pool().find(name(1)) != nullptr);
}

TEST_CASE("store: a full tier erases its oldest blocks that are not in the pool, a few per back-off") {
  KvWorkerConfig config = StoreBench::small();
  for (const std::size_t few : {1, 64}) {
    config.tier.evict_blocks = few;
    StoreBench b(config);
    b.start_warm({stored(1), stored(2), stored(3), stored(4), stored(5)});
    b.write(3, item(6));  // in place of the first
    const auto save = b.probe.started<SaveBlock>().at(0).first;
    b.write(4, item(7));  // in place of the second
    const auto second = b.probe.started<SaveBlock>().at(0).first;
    b.probe.done(5, save, BlockSaveResult{false, "full", false, true});
    CHECK(b.erased() == (few == 1 ? std::vector{name(1)} : std::vector{name(1), name(2), name(4), name(5)}));
    b.probe.done(6, second, BlockSaveResult{false, "full", false, true});
    CHECK(b.erased().empty());
    b.probe.run_until(505);
    CHECK(b.probe.started<SaveBlock>().empty());
    b.probe.run_until(506);
    CHECK(b.probe.started<SaveBlock>().size() == 2);
  }
}

TEST_CASE("store: failed erasures are repeated after the back-off, once") {
  StoreBench b;
  b.start_warm({stored(1)});
  b.forget(3, Forget{SegmentKind::item, "item 1", 1});
  b.probe.done(4, b.probe.started<EraseBlocks>().at(0).first, disk_is_away);
  b.probe.run_until(503);
  CHECK(b.erased().empty());
  b.probe.run_until(504);
  CHECK(b.erased() == std::vector{name(1)});
  b.probe.done(505, b.probe.started<EraseBlocks>().at(0).first, BlockEraseResult{});
  b.probe.run_until(5'000);
  CHECK(b.erased().empty());
}

TEST_CASE("store: failed erasures waiting are bounded, and exclude blocks stored again meanwhile") {
  KvWorkerConfig config = StoreBench::small();
  config.tier.erases_waiting_max = 1;
  StoreBench b(config);
  b.start_warm({stored(1), stored(2)});
  std::vector<std::uint64_t> jobs;
  for (std::uint8_t n : {1, 2}) {
    b.forget(3, Forget{SegmentKind::item, "item " + std::to_string(n), 1});
    jobs.push_back(b.probe.started<EraseBlocks>().at(0).first);
  }
  b.write(4, item(1));
  const auto save = b.probe.started<SaveBlock>().at(0).first;
  for (const auto job : jobs) b.probe.done(5, job, disk_is_away);
  b.probe.done(6, save, BlockSaveResult{true, ""});
  b.probe.run_until(1'000);
  CHECK(b.erased().empty());  // the first was saved again, the second exceeded the bound
}

TEST_CASE("store: the worker is not ready before the listing, whatever other jobs have ended") {
  StoreBench b;
  b.probe.start();
  const auto listing = b.probe.started<ListStored>().at(0).first;
  b.write(1, item(2));
  b.probe.done(2, b.probe.started<SaveBlock>().at(0).first, BlockSaveResult{true, ""});
  CHECK_FALSE(b.ready(3));
  b.probe.done(4, listing, StoredList{{stored(1)}});
  b.probe.done(5, b.probe.started<LoadBlocks>().at(0).first, BlockLoadResult{{BlockLoad::sound}});
  CHECK(b.ready(6));
}

TEST_CASE("store: a disk that refuses saves is still read") {
  StoreBench b;
  b.start({stored(1), stored(2), stored(3), stored(4)});
  for (const auto& load : b.probe.started<LoadBlocks>())
    b.probe.done(2, load.first, BlockLoadResult{std::vector(load.second.blocks.size(), BlockLoad::sound)});
  b.write(3, item(5));
  b.probe.done(4, b.probe.started<SaveBlock>().at(0).first, BlockSaveResult{false, "not now"});
  CHECK(b.acquire(5, {item(4)}).empty());
  CHECK(b.probe.started<LoadBlocks>().size() == 1);
}

TEST_CASE("store: a written item block is saved in the background, pinned meanwhile") {
  StoreBench b;
  b.start({});
  b.write(2, item(1));
  const auto saves = b.probe.started<SaveBlock>();
  REQUIRE(saves.size() == 1);
  CHECK(saves[0].second.block.checksum == 77);
  CHECK(b.core.pool().find(name(1))->pins == 1);
  b.probe.done(3, saves[0].first, BlockSaveResult{true, ""});
  CHECK(b.probe.counted(Metric::item_blocks_saved) == 1);
  CHECK(b.core.pool().find(name(1))->pins == 0);
}

TEST_CASE("store: waiting saves are bounded; other blocks are saved when computed again") {
  KvWorkerConfig config = StoreBench::small();
  config.tier.saves_running_max = config.tier.saves_waiting_max = 1;
  StoreBench b(config);
  b.start({});
  b.write(2, item(1));
  const auto running = b.probe.started<SaveBlock>();
  REQUIRE(running.size() == 1);
  b.write(3, item(2));
  b.write(4, item(3));
  b.probe.done(5, running[0].first, BlockSaveResult{true, ""});
  const auto next = b.probe.started<SaveBlock>();
  REQUIRE(next.size() == 1);
  CHECK(next[0].second.block.name == name(2));
  b.probe.done(6, next[0].first, BlockSaveResult{true, ""});
  CHECK(b.probe.started<SaveBlock>().empty());
}

TEST_CASE("store: an evicted block is loaded from disk instead of being computed") {
  StoreBench b;
  b.start({});
  b.write(2, item(1));
  b.probe.done(3, b.probe.started<SaveBlock>().at(0).first, BlockSaveResult{true, ""});
  for (std::uint8_t n : {2, 3, 4}) {
    b.write(4, item(n));
    b.probe.done(5, b.probe.started<SaveBlock>().at(0).first, BlockSaveResult{true, ""});
  }
  REQUIRE(b.core.pool().find(name(1)) == nullptr);
  CHECK(b.acquire(6, {item(1)}).empty());
  const auto loads = b.probe.started<LoadBlocks>();
  REQUIRE(loads.size() == 1);
  b.probe.done(7, loads[0].first, BlockLoadResult{{BlockLoad::sound}});
  const auto answers = b.probe.sent<BlocksAcquired>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].grants[0].grant == Grant::read);
  CHECK(answers[0].grants[0].checksum == 77);
}

TEST_CASE("store: a failing disk is left alone for a while, then written again") {
  StoreBench b;
  b.start({});
  b.write(2, item(1));
  b.probe.done(3, b.probe.started<SaveBlock>().at(0).first,
               BlockSaveResult{false, "disk full: 0 bytes free"});
  CHECK(b.probe.counted(Metric::item_blocks_save_failed) == 1);
  CHECK(b.probe.started<SaveBlock>().empty());
  b.write(4, item(2));
  CHECK(b.probe.started<SaveBlock>().empty());
  b.probe.run_until(502);
  CHECK(b.probe.started<SaveBlock>().empty());
  b.probe.run_until(503);
  CHECK(b.probe.started<SaveBlock>().size() == 2);
}

TEST_CASE("store: during a back-off blocks are computed instead of loaded") {
  StoreBench b;
  b.start({stored(1), stored(2), stored(3), stored(4)});
  const auto loads = b.probe.started<LoadBlocks>();
  for (const auto& load : loads) b.probe.done(2, load.first, disk_is_away);
  CHECK(b.ready(3));
  CHECK(b.acquire(4, {item(1)}).at(0).grant == Grant::write);
}

TEST_CASE("store: a forgotten owner's blocks are erased from disk, even one being saved") {
  StoreBench b;
  b.start({stored(1)});
  b.probe.done(2, b.probe.started<LoadBlocks>().at(0).first, BlockLoadResult{{BlockLoad::sound}});
  b.forget(3, Forget{SegmentKind::item, "item 1", 1});
  CHECK(b.probe.started<EraseBlocks>().at(0).second.names == std::vector<BlockName>{name(1)});
  b.write(4, item(2));
  const auto saves = b.probe.started<SaveBlock>();
  b.forget(5, Forget{SegmentKind::item, "item 2", 1});
  CHECK(b.probe.started<EraseBlocks>().empty());
  b.probe.done(6, saves.at(0).first, BlockSaveResult{true, ""});
  CHECK(b.probe.started<EraseBlocks>().size() == 1);
  CHECK(b.core.pool().used(PoolArea::item) == 0);
}

TEST_CASE("store: a block of another node is pulled rather than loaded") {
  StoreBench b;
  b.start({stored(1), stored(2), stored(3), stored(4)});
  for (const auto& load : b.probe.started<LoadBlocks>())
    b.probe.done(2, load.first, BlockLoadResult{std::vector(load.second.blocks.size(), BlockLoad::sound)});
  CHECK(b.acquire(3, {at(2, item(4))}).empty());
  CHECK(b.probe.started<LoadBlocks>().empty());
  CHECK(b.probe.sent<AcquireBlocks>().size() == 1);
}

}  // namespace
}  // namespace troupe::actors
