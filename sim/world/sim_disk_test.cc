#include "sim/world/sim_disk.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::sim;

namespace {

std::uint64_t checksum_of(const std::vector<Page>& pages) {
  Pages memory(static_cast<std::uint32_t>(pages.size()), 4);
  std::vector<std::uint32_t> ids;
  for (std::uint32_t id = 0; id < pages.size(); ++id) {
    memory.copy(id, pages[id]);
    ids.push_back(id);
  }
  return memory.checksum(ids);
}

SimDisk::Record record(std::uint8_t byte, std::size_t pages = 2) {
  SimDisk::Record record{{BlockName{{byte}}, SegmentKind::item, "i1", 8}, {}};
  for (std::size_t p = 0; p < pages; ++p) record.pages.push_back({{{byte, p}}, {}});
  record.block.checksum = checksum_of(record.pages);
  return record;
}

bool sound(const SimDisk& disk, std::uint8_t byte) {
  const SimDisk::Record* found = disk.find({{byte}});
  return found && identical(found->block.name, {{byte}}) && found->pages.size() == 2 &&
         checksum_of(found->pages) == found->block.checksum;
}

}  // namespace

TEST_CASE("sim disk: counts its pages and refuses a block that does not fit") {
  SimDisk disk(4);
  CHECK(disk.put(record(1)));
  CHECK(disk.put(record(2)));
  CHECK_FALSE(disk.put(record(3)));
  CHECK(disk.put(record(2, 1)));
  CHECK(disk.pages() == 3);
  CHECK(disk.erase({{1}}));
  CHECK_FALSE(disk.erase({{1}}));
  CHECK(disk.pages() == 1);
  disk.faults().full = true;
  CHECK_FALSE(disk.put(record(1, 1)));
}

TEST_CASE("sim disk: every kind of damage is detected by a reader's checks") {
  using Lie = bool (SimDisk::*)(RandomStream&);
  for (const Lie lie : {&SimDisk::flip_one, &SimDisk::forge_one, &SimDisk::truncate_one, &SimDisk::swap_two})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      RandomStream random(seed, 0);
      SimDisk disk(100);
      CHECK_FALSE((disk.*lie)(random));
      disk.put(record(1)), disk.put(record(200));
      CHECK((disk.*lie)(random));
      CHECK_FALSE((sound(disk, 1) && sound(disk, 200)));
    }
}

TEST_CASE("sim disk: a torn save leaves a first part of the block, which a reader's checks detect") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomStream random(seed, 0);
    SimDisk disk(100);
    disk.put_torn(record(1), random);
    REQUIRE(disk.find({{1}}));
    CHECK_FALSE(sound(disk, 1));
    CHECK(disk.pages() == disk.find({{1}})->pages.size());
  }
}

TEST_CASE("sim disk: erased records can come back until the disk is wiped") {
  RandomStream random(1, 0);
  SimDisk disk(100);
  CHECK_FALSE(disk.revive_one(random));
  disk.put(record(1));
  disk.erase({{1}});
  CHECK(disk.revive_one(random));
  CHECK(sound(disk, 1));
  CHECK(disk.pages() == 2);
  disk.wipe();
  CHECK(disk.records().empty());
  CHECK(disk.pages() == 0);
  CHECK_FALSE(disk.revive_one(random));
}
