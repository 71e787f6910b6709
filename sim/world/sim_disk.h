#pragma once
// The disk of one simulated node: what it was given, under names; it outlives the processes that use it. It
// may fail, be full or slow, and it may lie: flip bits, give one block's record for another's name, bring
// back what was erased or replaced, or forget everything. Its users find out by looking at what they read.
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
  // What becomes of a save that breaks off in its middle; a part of the block is on the disk.
  enum class Torn { none, by_full_disk, by_death };
  struct Faults {
    bool full = false;     // takes nothing more
    bool failing = false;  // neither takes nor gives
    Slowness slowness;
    Torn torn = Torn::none;
    double loads_lost = 0;  // share of the blocks that cannot be read
  };
  struct Record {
    StoredBlock block;  // as its writer called it
    std::vector<Page> pages;
  };
  // By whole names, also where containers of the planted build see only a few bits of them.
  struct ByBytes {
    bool operator()(const BlockName& a, const BlockName& b) const { return a.bytes < b.bytes; }
  };
  using Records = std::map<BlockName, Record, ByBytes>;

  explicit SimDisk(std::uint64_t pages_max) : pages_max_(pages_max) {}

  Faults& faults() { return faults_; }
  const Faults& faults() const { return faults_; }

  bool put(const Record& record);  // false: no room
  // A first part of its pages, and either nothing or pages of zeros after them.
  void put_torn(Record record, SimRandom& random);
  const Record* find(const BlockName& name) const;
  bool erase(const BlockName& name);
  const Records& records() const { return records_; }
  std::uint64_t pages() const { return pages_; }

  // Each needs something to lie about; false if there is nothing.
  bool flip_one(SimRandom& random);      // a bit of a page
  bool forge_one(SimRandom& random);     // a bit of what a record says about itself: its checksum
  bool swap_two(SimRandom& random);      // two names with each other's record, or with its pages
  bool truncate_one(SimRandom& random);  // the last page is gone
  bool revive_one(SimRandom& random);    // a record that was erased or replaced lately is back under its name
  void wipe();

 private:
  static constexpr std::size_t lost_max = 64;
  Records::iterator any(SimRandom& random);
  void bury(Record record);

  std::uint64_t pages_max_, pages_ = 0;
  Records records_;
  std::deque<Record> lost_;  // erased or replaced, newest last
  Faults faults_;
};

}  // namespace troupe::sim
