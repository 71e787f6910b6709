// Copies blocks of the pool to device memory before a pass (one run of the model over a batch).
// Blocks that the pass wrote are copied back afterwards. Later passes reuse the copies that are
// still there.
#include "actors/inference/device_pages_port.h"

#include "kernels/base/check.h"

namespace troupe::actors {

using kernels::cuda::DeviceError;
using kernels::cuda::PageCopy;
using State = DeviceTier::State;

namespace {

// The device failed while another slot made a copy that this slot waited for.
struct LostElsewhere : DeviceError {
  using DeviceError::DeviceError;
};

bool is_read(const PassBlock& block) { return block.kv->grant == Grant::read; }

int used(int device) {
  kernels::cuda::use_device(device);
  return device;
}

std::size_t bytes_of(const PageArena& arena) {
  return arena.pages() < 2 ? arena.pages() * arena.page_bytes()
                           : arena.pages() * static_cast<std::size_t>(arena.page(1) - arena.page(0));
}

}  // namespace

DevicePages::DevicePages(PageArena& arena, int device, std::uint32_t pages, std::uint32_t slots, bool verify)
    : arena_(arena),
      device_(used(device)),
      verify_(verify),
      page_bytes_(arena.page_bytes()),
      lock_(arena.page(0), bytes_of(arena)),
      memory_(page_bytes_, pages),
      tier_(pages) {
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    slots_.push_back(std::make_unique<SlotState>(page_bytes_));
}

std::size_t DevicePages::begin(std::span<PassBlocks> requests, std::uint32_t number, DeviceUse& use) {
  kernels::cuda::use_device(device_);
  SlotState& slot = *slots_.at(number);
  const std::size_t count = admit(requests, slot, use);
  try {
    copy_in(requests.first(count), slot, use);
    await_pages(requests.first(count), slot);
  } catch (const LostElsewhere&) {
    // The failing slot has dropped all copies; copies made since then are valid.
    end(number, false);
    throw;
  } catch (...) {
    end(number, true);
    throw;
  }
  return count;
}

// ---- free pages ----

std::size_t DevicePages::admit(std::span<PassBlocks> requests, SlotState& slot, DeviceUse& use) {
  TROUPE_CHECK(slot.pinned.empty(), "a slot's pass ends before its next begins");
  const std::lock_guard turn(admission_mutex_);
  std::unique_lock lock(mutex_);
  const std::uint64_t evicted = tier_.evicted();
  DeviceTier::PinResult result = DeviceTier::PinResult::later;
  changed_.wait(lock, [&] { return (result = pin(requests.front(), slot)) != DeviceTier::PinResult::later; });
  if (result == DeviceTier::PinResult::never) return 0;
  std::size_t count = 1;
  while (count < requests.size() && pin(requests[count], slot) == DeviceTier::PinResult::enough) ++count;
  use.blocks_evicted += tier_.evicted() - evicted;
  use.pages = tier_.pages();
  use.pages_used = tier_.used();
  return count;
}

DeviceTier::PinResult DevicePages::pin(const PassBlocks& blocks, SlotState& slot) {
  std::vector<DeviceTier::Want> wants;
  for (const PassBlock& block : blocks)
    wants.push_back({block.kv->generation, block.kv->checksum,
                     static_cast<std::uint32_t>(block.kv->pages.size()), !is_read(block)});
  // First, so that `end` sees every pin even if memory runs out.
  Pin& pinned = slot.pinned.emplace_back();
  const DeviceTier::PinResult result = tier_.pin(wants, pinned);
  if (result != DeviceTier::PinResult::enough) slot.pinned.pop_back();
  return result;
}

// ---- copies to the device ----

void DevicePages::add_copies(const PassBlock& block, const DeviceTier::Block& to,
                             std::vector<PageCopy>& copies) const {
  for (std::size_t p = 0; p < to.pages.size(); ++p)
    copies.push_back({memory_.page(to.pages[p]), arena_.page(block.kv->pages[p])});
}

// Copies the blocks that this slot has to fill, and verifies their checksums meanwhile.
void DevicePages::copy_in(std::span<PassBlocks> requests, SlotState& slot, DeviceUse& use) {
  std::vector<PageCopy> copies;
  std::vector<std::pair<const PassBlock*, DeviceTier::Block*>> fills;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    for (std::size_t b = 0; b < requests[r].size(); ++b) {
      const DeviceTier::Pin& pinned = slot.pinned[r][b];
      if (!is_read(requests[r][b])) continue;
      ++(pinned.fill ? use.blocks_missed : use.blocks_hit);
      if (!pinned.fill) continue;
      add_copies(requests[r][b], *pinned.block, copies);
      fills.push_back({&requests[r][b], pinned.block});
    }
  }
  if (fills.empty()) return;
  use.bytes_to_device += copies.size() * page_bytes_;
  const auto ticket = slot.copies.promote(copies);
  TROUPE_CHECK(ticket.has_value(), "a slot has one copy in flight");
  std::vector<std::uint8_t> sound;
  for (const auto& [from, to] : fills) sound.push_back(is_sound(*from));
  slot.copies.finish(*ticket);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < fills.size(); ++i)
    sound[i] ? tier_.fill(*fills[i].second, fills[i].first->kv->checksum)
             : tier_.fail(*fills[i].second, State::corrupt);
  changed_.notify_all();
}

bool DevicePages::is_sound(const PassBlock& block) const {
  return !(verify_ || block.kv->check) || checksum_pages(arena_, block.kv->pages) == block.kv->checksum;
}

// Waits for blocks that other slots copy.
void DevicePages::await_pages(std::span<PassBlocks> requests, const SlotState& slot) {
  std::unique_lock lock(mutex_);
  for (std::size_t r = 0; r < requests.size(); ++r) {
    for (std::size_t b = 0; b < requests[r].size(); ++b) {
      PassBlock& block = requests[r][b];
      const DeviceTier::Block& here = *slot.pinned[r][b].block;
      if (is_read(block)) changed_.wait(lock, [&] { return here.state != State::filling; });
      if (here.state == State::lost)
        throw LostElsewhere("pages: the device failed while another batch copied them");
      block.corrupt = here.state == State::corrupt;
      if (block.corrupt) continue;
      for (const std::uint32_t page : here.pages) block.pages.push_back(memory_.page(page));
    }
  }
}

// ---- copies back to the host ----

void DevicePages::keep(std::span<PassBlocks> requests, std::uint32_t number, DeviceUse& use) {
  SlotState& slot = *slots_.at(number);
  std::vector<PageCopy> copies;
  for (std::size_t r = 0; r < requests.size(); ++r)
    for (std::size_t b = 0; b < requests[r].size(); ++b)
      if (!is_read(requests[r][b])) add_copies(requests[r][b], *slot.pinned[r][b].block, copies);
  if (copies.empty()) return;
  use.bytes_to_host += copies.size() * page_bytes_;
  const auto ticket = slot.copies.demote(copies);
  TROUPE_CHECK(ticket.has_value(), "a slot has one copy in flight");
  slot.copies.finish(*ticket);
  for (PassBlocks& blocks : requests)
    for (PassBlock& block : blocks)
      if (!is_read(block)) block.checksum = checksum_pages(arena_, block.kv->pages);
  const std::lock_guard lock(mutex_);
  for (std::size_t r = 0; r < requests.size(); ++r)
    for (std::size_t b = 0; b < requests[r].size(); ++b)
      if (!is_read(requests[r][b])) tier_.fill(*slot.pinned[r][b].block, requests[r][b].checksum);
}

void DevicePages::end(std::uint32_t number, bool failed) noexcept {
  SlotState& slot = *slots_.at(number);
  if (failed) try {
      slot.copies.finish_all();
    } catch (const std::exception&) {  // the caller knows of the failure; no copy runs any more
    }
  const std::lock_guard lock(mutex_);
  if (failed) tier_.forget_all();
  for (const Pin& request : slot.pinned)
    for (const DeviceTier::Pin& pinned : request) {
      if (!pinned.block) continue;  // memory ran out while pinning
      if (pinned.fill && pinned.block->state == State::filling) tier_.fail(*pinned.block, State::lost);
      tier_.unpin(*pinned.block);
    }
  slot.pinned.clear();
  changed_.notify_all();
}

}  // namespace troupe::actors
