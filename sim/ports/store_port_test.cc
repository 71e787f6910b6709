#include "sim/ports/store_port.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::sim;

namespace store_port_test {

const BlockName name{{7}};
const std::vector<std::uint32_t> three{1, 2, 3};
constexpr std::uint32_t tokens = 10;

// Node 1 has the pages `here`. Node 2, in its fifth incarnation, has a block of three pages in `there`.
struct Node {
  Instant now;
  Pages here{16, 4}, there{16, 4};
  SimDisk disk{100};
  SimNetwork network{1};
  PageRegistry peers;
  TransferFaults faults;
  Violations violations;
  SimStorePort port{options(), here, disk, network, peers, faults, violations};

  Node() {
    peers.put(2, 5, &there);
    fill(there, 1), fill(here, 1);
  }
  SimStoreOptions options() {
    return {.node = 1, .page_bytes = 1'000, .disk_latency = {100}, .disk_bytes_per_us = 10, .now = [this] {
              return now;
            }};
  }
  static void fill(Pages& pages, std::uint64_t value) {
    for (std::uint32_t p = 0; p < 3; ++p)
      pages.write(three[p], fingerprint({{value, value}}, p, tokens, 4), {});
  }
  std::uint64_t checksum() const { return there.checksum(three); }

  std::optional<Duration> begin(const Job& job) { return port.begin(now, job, 0); }
  JobResult end(const Job& job, std::int64_t after_us = 10) {
    now.us += after_us;
    return port.run(job, 0);
  }
  JobResult run(const Job& job) { return begin(job), end(job); }

  PullBlocks pull(std::int64_t budget_us = 1'000'000) const {
    return {2, 5, budget_us, {{name, 1, checksum(), tokens, three, {8, 9, 10}}}};
  }
  bool arrived(const PullBlocks& pull) {
    run(pull);
    return std::get<PullResult>(run(pull)).ok[0];
  }
  SaveBlock save() const { return {{name, SegmentKind::item, "i1", tokens, here.checksum(three)}, three}; }
  LoadBlocks load() const { return {{{name, {8, 9, 10}, tokens, checksum()}}}; }
  bool loaded() { return std::get<BlockLoadResult>(run(load())).found[0] == BlockLoad::sound; }
};

const std::vector<std::uint32_t> target{8, 9, 10};

// ---- other nodes' pages ----

TEST_CASE("store port: a pull reads the first half of the pages at its start and the rest at its end") {
  Node node;
  const Job job = node.pull();
  CHECK(*node.begin(job) > Duration{0});
  CHECK(node.here.at(9).print == node.there.at(2).print);
  CHECK(node.here.at(10).print == PageFingerprint{});
  CHECK(std::get<PullResult>(node.end(job)).ok[0]);
  CHECK(node.here.checksum(target) == node.checksum());
  CHECK(node.violations.count() == 0);
}

TEST_CASE("store port: the end of a partial pull is recorded; content after the lease is discarded") {
  for (const bool late : {false, true}) {
    Node node;
    PullBlocks pull = node.pull(1'000);
    pull.parts = 2, pull.blocks[0].here = 7;
    const Duration takes = *node.begin(pull);
    const Arrival* arrival = node.here.arrival(7);
    REQUIRE(arrival);
    CHECK(arrival->ends_us - arrival->begins_us == takes.us);
    CHECK_FALSE(arrival->ended);
    node.end(pull, late ? 1'001 : 1'000);
    CHECK(arrival->ended);
    CHECK(arrival->good == !late);
    CHECK_FALSE(node.here.rewritten(target, arrival->left));
  }
}

TEST_CASE("store port: pages that change at their owner tear the copy, a violation during the lease") {
  for (const std::int64_t after_us : {1'000, 1'001}) {
    Node node;
    const Job job = node.pull(1'000);
    node.begin(job);
    Node::fill(node.there, 2);
    CHECK_FALSE(std::get<PullResult>(node.end(job, after_us)).ok[0]);
    CHECK(node.violations.count() == (after_us == 1'000 ? 1 : 0));
    CHECK(node.here.at(8).late == (after_us == 1'001));
    CHECK(node.port.bad_transfers() == 1);
  }
}

TEST_CASE("store port: a pull that may have waited in a queue does not judge its lease") {
  Node node;
  node.run(ListStored{});
  const Job job = node.pull(1'000);
  node.begin(job);
  Node::fill(node.there, 2);
  CHECK_FALSE(std::get<PullResult>(node.end(job)).ok[0]);
  CHECK(node.violations.count() == 0);
}

TEST_CASE("store port: local pages reassigned during a pull are reported") {
  Node node;
  const Job job = node.pull();
  node.begin(job);
  node.here.copy(9, node.here.at(9));
  node.end(job);
  CHECK(node.violations.kept().at(0).promise == 3);
}

TEST_CASE("store port: a dead peer, another incarnation, a cut and a reset are refused") {
  const auto refused = [](Node& node) {
    const Job job = node.pull();
    CHECK(node.begin(job));
    return std::holds_alternative<Refusal>(node.end(job));
  };
  Node dead, again, cut, reset, dies, cut_on_the_way;
  dead.peers.remove(2);
  CHECK(refused(dead));
  again.peers.put(2, 6, &again.there);
  CHECK(refused(again));
  cut.network.cut(1, 2);
  CHECK(cut.begin(cut.pull(300)) == Duration{300});
  CHECK(refused(cut));
  reset.faults.reset = 1;
  CHECK(refused(reset));
  const Job job = dies.pull();
  dies.begin(job);
  dies.peers.put(2, 6, &dies.there);
  CHECK(std::holds_alternative<Refusal>(dies.end(job)));
  cut_on_the_way.begin(job);
  cut_on_the_way.network.cut(2, 1);
  CHECK(std::holds_alternative<Refusal>(cut_on_the_way.end(job)));
}

TEST_CASE("store port: a bit flipped in transfer is detected, and so is a wrong block") {
  Node node;
  node.faults.corrupted = 1;
  CHECK_FALSE(node.arrived(node.pull()));
  node.faults = {};
  PullBlocks other = node.pull();
  other.blocks[0].checksum ^= 1;
  CHECK_FALSE(node.arrived(other));
  other = node.pull();
  other.blocks[0].from = {1, 2, 99};
  CHECK_FALSE(node.arrived(other));
  CHECK(node.arrived(node.pull()));
}

// ---- the disk ----

TEST_CASE("store port: a block is saved, listed, loaded by another process and erased") {
  Node node;
  const SaveBlock save = node.save();
  CHECK(node.begin(save) == Duration{400});
  CHECK(std::get<BlockSaveResult>(node.end(save)).ok);
  const auto list = std::get<StoredList>(node.run(ListStored{})).blocks;
  REQUIRE(list.size() == 1);
  CHECK(list[0].name == name);
  CHECK(list[0].checksum == node.checksum());
  CHECK(node.loaded());
  CHECK(node.here.checksum(target) == node.checksum());
  LoadBlocks other = node.load();
  ++other.blocks[0].checksum;
  CHECK(std::get<BlockLoadResult>(node.run(other)).found[0] != BlockLoad::sound);
  CHECK(node.loaded());
  node.run(EraseBlocks{{name}});
  CHECK_FALSE(node.loaded());
  CHECK(node.violations.count() == 0);
}

TEST_CASE("store port: a full or failing disk is reported, and a slow one takes longer") {
  Node node;
  node.disk.faults().full = true;
  const BlockSaveResult full = std::get<BlockSaveResult>(node.run(node.save()));
  CHECK(full.why == "disk full");
  CHECK(full.full);
  node.disk.faults() = {.failing = true};
  const std::vector<Job> jobs{node.save(), node.load(), ListStored{}, EraseBlocks{}};
  for (const Job& job : jobs) CHECK(std::get<Refusal>(node.run(job)).code == "storage_failed");
  node.disk.faults() = {.slowness = {5}};
  CHECK(node.begin(node.save()) == Duration{2'000});
  node.disk.faults() = {.slowness = {5, node.now + Duration{1'000}}};  // half of it is done then
  CHECK(node.begin(node.save()) == Duration{1'200});
}

TEST_CASE("store port: damaged data on disk is a miss and is removed") {
  const auto lied = [](auto lie) {
    Node node;
    RandomStream random(3, 3);
    node.run(node.save());
    lie(node.disk, random);
    CHECK_FALSE(node.loaded());
    return node.port.quarantined() == 1 && node.disk.records().empty();
  };
  CHECK(lied([](SimDisk& disk, RandomStream& random) { disk.flip_one(random); }));
  CHECK(lied([](SimDisk& disk, RandomStream& random) { disk.truncate_one(random); }));
  CHECK(lied([](SimDisk& disk, RandomStream&) {
    SimDisk::Record other = *disk.find(name);
    disk.wipe();
    other.block.name = {{8}};
    disk.put(other);
    disk.put({{name}, {}});
    RandomStream random(1, 1);
    while (disk.find(name)->block.name != BlockName{{8}}) disk.swap_two(random);
    disk.erase({{8}});
  }));
}

TEST_CASE("store port: a record under another block's name is not listed") {
  Node node;
  node.run(node.save());
  SaveBlock other = node.save();
  other.block.name = {{8}};
  node.run(other);
  RandomStream random(1, 1);
  while (identical(node.disk.find(name)->block.name, name)) node.disk.swap_two(random);
  CHECK(std::get<StoredList>(node.run(ListStored{})).blocks.empty());
  CHECK(node.port.quarantined() == 2);
}

TEST_CASE("store port: pages that do not match their checksum are not saved, without a disk error") {
  Node node;
  SaveBlock wrong = node.save();
  wrong.block.checksum ^= 1;
  const BlockSaveResult saved = std::get<BlockSaveResult>(node.run(wrong));
  CHECK(!saved.ok);
  CHECK(saved.corrupt);
}

TEST_CASE("store port: pages that change during a save or load are reported") {
  Node node;
  const Job save = node.save();
  node.begin(save);
  node.here.copy(2, node.here.at(2));
  node.end(save);
  CHECK(node.violations.count() == 1);
  const Job load = node.load();
  node.begin(load);
  node.here.copy(10, node.here.at(10));
  node.end(load);
  CHECK(node.violations.count() == 2);
}

TEST_CASE("store port: pages outside the arena, or too few, are refused") {
  Node node;
  SaveBlock save = node.save();
  save.pages = {1, 2, 16};
  CHECK(std::get<Refusal>(node.run(save)).code == "bad_pages");
  LoadBlocks load = node.load();
  load.blocks[0].pages = {8, 9};
  CHECK(std::get<Refusal>(node.run(load)).code == "bad_pages");
}

TEST_CASE("store port: a load into too few pages writes nothing") {
  Node node;
  node.run(node.save());
  const std::vector<Page> before = node.here.read(target);
  LoadBlocks load = node.load();
  load.blocks[0].pages = {8, 9};
  node.begin(load);
  CHECK_FALSE(node.here.rewritten(target, before));
}

TEST_CASE("store port: a torn save is on the disk, but no load accepts it") {
  for (const auto torn : {SimDisk::Torn::by_full_disk, SimDisk::Torn::by_death}) {
    Node node;
    node.disk.faults().torn = torn;
    const Job job = node.save();
    CHECK(node.begin(job).has_value() == (torn == SimDisk::Torn::by_full_disk));
    if (torn == SimDisk::Torn::by_full_disk) CHECK(std::get<BlockSaveResult>(node.end(job)).full);
    CHECK(node.disk.records().size() == 1);
    node.disk.faults().torn = SimDisk::Torn::none;
    CHECK_FALSE(node.loaded());
  }
}

TEST_CASE("store port: failing loads refuse single blocks and keep them on disk") {
  Node node;
  node.run(node.save());
  node.disk.faults().loads_lost = 1;
  CHECK_FALSE(node.loaded());
  node.disk.faults().loads_lost = 0;
  CHECK(node.loaded());
}

}  // namespace store_port_test
