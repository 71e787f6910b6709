// Simulates a node's disk, which outlives processes. It can fail, fill up, slow down, or return
// damaged or outdated blocks.
#include "sim/world/sim_disk.h"

#include <utility>

namespace troupe::sim {

bool SimDisk::put(const Record& record) {
  const auto old = records_.find(record.block.name);
  const std::uint64_t replaced = old == records_.end() ? 0 : old->second.pages.size();
  if (faults_.full || pages_ - replaced + record.pages.size() > pages_max_) return false;
  pages_ = pages_ - replaced + record.pages.size();
  if (old != records_.end()) bury(std::move(old->second));
  records_[record.block.name] = record;
  return true;
}

void SimDisk::put_torn(Record record, RandomStream& random) {
  if (record.pages.empty()) return;
  const std::size_t whole = record.pages.size(), written = random.below(whole);
  record.pages.resize(written);
  if (random.below(2) == 0) record.pages.resize(whole);
  put(record);
}

const SimDisk::Record* SimDisk::find(const BlockName& name) const {
  const auto at = records_.find(name);
  return at == records_.end() ? nullptr : &at->second;
}

bool SimDisk::erase(const BlockName& name) {
  const auto at = records_.find(name);
  if (at == records_.end()) return false;
  pages_ -= at->second.pages.size();
  bury(std::move(at->second));
  records_.erase(at);
  return true;
}

void SimDisk::bury(Record record) {
  lost_.push_back(std::move(record));
  if (lost_.size() > lost_max) lost_.pop_front();
}

SimDisk::Records::iterator SimDisk::any(RandomStream& random) {
  BlockName near;
  for (std::size_t i = 0; i < 8; ++i) near.bytes[i] = static_cast<std::uint8_t>(random.next());
  const auto at = records_.lower_bound(near);
  return at == records_.end() ? records_.begin() : at;
}

bool SimDisk::flip_one(RandomStream& random) {
  if (records_.empty()) return false;
  std::vector<Page>& pages = any(random)->second.pages;
  if (pages.empty()) return false;
  Page& page = pages[random.below(pages.size())];
  flip(page, random.next());
  return true;
}

bool SimDisk::forge_one(RandomStream& random) {
  if (records_.empty()) return false;
  any(random)->second.block.checksum ^= std::uint64_t{1} << random.below(64);
  return true;
}

bool SimDisk::swap_two(RandomStream& random) {
  if (records_.size() < 2) return false;
  const auto one = any(random);
  auto other = any(random);
  if (other == one && ++other == records_.end()) other = records_.begin();
  if (random.next() % 2 == 0)
    std::swap(one->second, other->second);
  else
    std::swap(one->second.pages, other->second.pages);
  return true;
}

bool SimDisk::truncate_one(RandomStream& random) {
  if (records_.empty()) return false;
  std::vector<Page>& pages = any(random)->second.pages;
  if (pages.empty()) return false;
  pages.pop_back();
  --pages_;
  return true;
}

bool SimDisk::revive_one(RandomStream& random) {
  if (lost_.empty()) return false;
  const Record& lost = lost_[random.below(lost_.size())];
  Record& now = records_[lost.block.name];
  pages_ = pages_ - now.pages.size() + lost.pages.size();
  now = lost;
  return true;
}

void SimDisk::wipe() {
  records_.clear();
  lost_.clear();
  pages_ = 0;
}

}  // namespace troupe::sim
