#pragma once
// Disk of one simulated node: stored blocks by name. The disk outlives the processes that use it. It may
// fail, be full or be slow, and it may lie: flip bits, return one block's record under another's name,
// bring back erased or replaced records, or lose everything. Its users detect that by checking what they
// read.
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "runtime/actor/ports.h"
#include "sim/base/random.h"
#include "sim/base/slowness.h"
#include "sim/world/pages.h"

namespace troupe::sim {

class SimDisk {
 public:
  // Cause of a save that breaks off; a part of the block is on the disk.
  enum class Torn { none, by_full_disk, by_death };
  struct Faults {
    bool full = false;     // saves fail
    bool failing = false;  // saves and loads fail
    Slowness slowness;
    Torn torn = Torn::none;
    double loads_lost = 0;  // share of the blocks that cannot be read
  };
  struct Record {
    StoredBlock block;  // as the writer described it
    std::vector<Page> pages;
  };
  // Orders by whole names, even in test builds whose containers see only a few bits of a name.
  struct ByBytes {
    bool operator()(const BlockName& a, const BlockName& b) const { return a.bytes < b.bytes; }
  };
  using Records = std::map<BlockName, Record, ByBytes>;

  explicit SimDisk(std::uint64_t pages_max) : pages_max_(pages_max) {}

  Faults& faults() { return faults_; }
  const Faults& faults() const { return faults_; }

  bool put(const Record& record);  // false = the disk is full
  // Saves a first part of the block's pages, followed by nothing or by pages of zeros.
  void put_torn(Record record, RandomStream& random);
  const Record* find(const BlockName& name) const;
  bool erase(const BlockName& name);
  const Records& records() const { return records_; }
  std::uint64_t pages() const { return pages_; }

  // Each function needs a record to damage and returns false if there is none.
  bool flip_one(RandomStream& random);      // flips a bit of a page
  bool forge_one(RandomStream& random);     // flips a bit of a record's checksum
  bool swap_two(RandomStream& random);      // exchanges two names' records, or only their pages
  bool truncate_one(RandomStream& random);  // drops the last page
  bool revive_one(RandomStream& random);    // restores a recently erased or replaced record under its name
  void wipe();

 private:
  static constexpr std::size_t lost_max = 64;
  Records::iterator any(RandomStream& random);
  void bury(Record record);

  std::uint64_t pages_max_, pages_ = 0;
  Records records_;
  std::deque<Record> lost_;  // erased or replaced records, newest last
  Faults faults_;
};

}  // namespace troupe::sim
