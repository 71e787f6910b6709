#include "actors/inference/device_tier.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <utility>

namespace troupe::actors {
namespace device_tier_test {

using PinResult = DeviceTier::PinResult;
using State = DeviceTier::State;
using Want = DeviceTier::Want;

Want read(std::uint64_t generation, std::uint32_t pages = 1) { return {generation, generation * 7, pages}; }
Want write(std::uint64_t generation, std::uint32_t pages = 1) { return {generation, 0, pages, true}; }

struct Bench {
  DeviceTier tier;
  explicit Bench(std::uint32_t pages) : tier(pages) {}
  ~Bench() { CHECK(tier.check_invariants() == ""); }

  std::optional<std::vector<DeviceTier::Pin>> pin(std::vector<Want> wants) {
    std::vector<DeviceTier::Pin> pinned;
    if (tier.pin(wants, pinned) != PinResult::enough) return std::nullopt;
    return pinned;
  }
  PinResult result(std::vector<Want> wants) {
    std::vector<DeviceTier::Pin> pinned;
    return tier.pin(wants, pinned);
  }
  // Runs one pass over these blocks. Returns how many had to be filled.
  int use(const std::vector<Want>& wants) {
    const auto pinned = pin(wants);
    REQUIRE(pinned);
    int filled = 0;
    for (std::size_t i = 0; i < wants.size(); ++i) {
      if (!(*pinned)[i].fill) continue;
      tier.fill(*(*pinned)[i].block, wants[i].generation * 7);
      ++filled;
    }
    for (const auto& [block, fill] : *pinned) tier.unpin(*block);
    return filled;
  }
};

TEST_CASE("device tier: a block is filled once and then found, until other blocks need its pages") {
  Bench b(4);
  CHECK(b.use({read(1, 2), read(2)}) == 2);
  CHECK(b.use({read(2), read(1, 2)}) == 0);
  CHECK(b.use({read(3)}) == 1);
  CHECK(b.tier.used() == 4);
  CHECK(b.use({read(4)}) == 1);  // evicts 3, which was used only once
  CHECK(b.tier.evicted() == 1);
  CHECK(b.use({read(1, 2), read(2)}) == 0);
  CHECK(b.use({read(3)}) == 1);
}

TEST_CASE("device tier: a written block is found by readers of those bytes, and of no others") {
  Bench b(4);
  CHECK(b.use({write(1, 2)}) == 1);
  CHECK(b.use({read(1, 2)}) == 0);
  CHECK(b.use({Want{1, 999, 2}}) == 1);  // another checksum: other bytes, whatever the generation
  CHECK(b.use({Want{1, 7, 1}}) == 1);    // another size
  CHECK(b.use({write(1, 2)}) == 1);      // written anew after a failed pass
  CHECK(b.tier.used() == 2);
}

TEST_CASE("device tier: a block counts once for a request that names it twice") {
  Bench b(2);
  const auto pinned = b.pin({read(1, 2), read(1, 2)});
  REQUIRE(pinned);
  CHECK((*pinned)[0].fill);
  CHECK_FALSE((*pinned)[1].fill);
  CHECK((*pinned)[0].block == (*pinned)[1].block);
  b.tier.fill(*(*pinned)[0].block, 7);
  for (const auto& [block, fill] : *pinned) b.tier.unpin(*block);
}

TEST_CASE(
    "device tier: pinned blocks keep their pages; a request waits, or never fits if larger than the device") {
  Bench b(4);
  const auto pinned = b.pin({read(1, 3)});
  REQUIRE(pinned);
  CHECK(b.result({read(2, 2)}) == PinResult::later);
  CHECK(b.result({read(1, 3), read(2, 2)}) == PinResult::never);
  CHECK(b.result({read(2, 5)}) == PinResult::never);
  CHECK(b.result({write(1, 3)}) == PinResult::later);
  CHECK(b.tier.used() == 3);
  b.tier.fill(*(*pinned)[0].block, 7);
  b.tier.unpin(*(*pinned)[0].block);
  CHECK(b.use({read(2, 2)}) == 1);
  CHECK(b.use({}) == 0);
}

TEST_CASE("device tier: a request's own blocks are not evicted for its other blocks") {
  Bench b(4);
  CHECK(b.use({read(1, 2)}) == 1);
  CHECK(b.use({read(2, 2)}) == 1);
  const auto pinned = b.pin({read(3, 2), read(1, 2)});  // evicts 2, though 1 was used before it
  REQUIRE(pinned);
  CHECK((*pinned)[0].fill);
  CHECK_FALSE((*pinned)[1].fill);
  b.tier.fill(*(*pinned)[0].block, 21);
  for (const auto& [block, fill] : *pinned) b.tier.unpin(*block);
}

TEST_CASE("device tier: a second reader shares the block that the first fills, and sees its failure") {
  Bench b(4);
  const auto first = b.pin({read(1)}), second = b.pin({read(1)});
  REQUIRE(first);
  REQUIRE(second);
  CHECK_FALSE((*second)[0].fill);
  b.tier.fail(*(*first)[0].block, State::corrupt);
  CHECK((*second)[0].block->state == State::corrupt);
  b.tier.unpin(*(*first)[0].block);
  CHECK(b.tier.used() == 1);
  b.tier.unpin(*(*second)[0].block);
  CHECK(b.tier.used() == 0);
  CHECK(b.use({read(1)}) == 1);
}

TEST_CASE("device tier: after a failure no block is found, and pinned pages stay with their holder") {
  Bench b(4);
  CHECK(b.use({read(1)}) == 1);
  const auto held = b.pin({read(1), write(2)});
  REQUIRE(held);
  b.tier.forget_all();
  CHECK((*held)[1].block->state == State::lost);
  CHECK(b.tier.used() == 2);
  CHECK(b.use({read(1)}) == 1);
  b.tier.fill(*(*held)[1].block, 14);  // its pass ended well; still, it must not be found
  for (const auto& [block, fill] : *held) b.tier.unpin(*block);
  CHECK(b.tier.used() == 1);
  CHECK(b.use({read(2)}) == 1);
}

TEST_CASE("device tier: a block that was to be filled and was not is not found") {
  Bench b(4);
  const auto held = b.pin({write(1)});
  REQUIRE(held);
  b.tier.unpin(*(*held)[0].block);
  CHECK(b.tier.used() == 0);
}

TEST_CASE("device tier: a second reader makes a block reused, even while the first still pins it") {
  Bench b(4);
  const auto first = b.pin({write(1)});
  REQUIRE(first);
  b.tier.fill(*(*first)[0].block, 7);
  CHECK(b.use({read(1)}) == 0);
  b.tier.unpin(*(*first)[0].block);
  for (std::uint64_t item = 100; item < 110; ++item) CHECK(b.use({write(item)}) == 1);
  CHECK(b.use({read(1)}) == 0);
}

TEST_CASE("device tier: a walk over the catalog does not evict reused blocks") {
  Bench b(10);
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t shared = 1; shared <= 4; ++shared) b.use({read(shared)});
  for (std::uint64_t item = 100; item < 200; ++item) CHECK(b.use({write(item)}) == 1);
  for (std::uint64_t shared = 1; shared <= 4; ++shared) CHECK(b.use({read(shared)}) == 0);
  // Blocks reused long ago are evicted when more blocks are reused.
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t other = 300; other < 306; ++other) b.use({read(other)});
  CHECK(b.use({write(400)}) == 1);
  CHECK(b.use({read(1)}) == 1);
}

// Executor slots with passes of random blocks, against a memory in which each page holds what was
// last written there.
struct RandomSlots {
  using Contents = std::pair<std::uint64_t, std::uint64_t>;  // generation and checksum
  struct Pass {
    std::vector<Want> wants;
    std::vector<DeviceTier::Pin> pinned;
  };
  std::mt19937_64 random;
  std::uint32_t pages;
  DeviceTier tier;
  std::vector<Contents> memory;
  std::vector<Pass> slots;
  std::uint64_t next_generation = 1;

  explicit RandomSlots(std::uint64_t seed)
      : random(seed), pages(3 + random() % 20), tier(pages), memory(pages), slots(1 + random() % 4) {}
  std::uint64_t below(std::uint64_t n) { return random() % n; }
  static std::uint32_t size_of(std::uint64_t generation) { return 1 + generation % 3; }

  std::vector<Want> draw() {
    std::vector<Want> wants;
    for (std::uint64_t i = 0, count = below(6); i < count; ++i) {
      const bool write = below(3) == 0;
      const std::uint64_t generation =
          write || next_generation == 1 ? next_generation++ : 1 + below(next_generation - 1);
      if (std::ranges::any_of(wants, [&](const Want& w) { return w.generation == generation && w.write; }))
        continue;  // wants of one generation are alike
      wants.push_back({generation, write ? 0 : generation * 7, size_of(generation), write});
    }
    return wants;
  }
  // Returns the expected result, by a plain count of pinned pages.
  PinResult expected(const std::vector<Want>& wants) const {
    std::set<std::uint64_t> own;
    std::uint64_t all = 0, held = 0;
    bool blocked = false;
    for (const Want& want : wants)
      if (own.insert(want.generation).second) all += want.pages;
    std::set<const DeviceTier::Block*> pinned;
    for (const Pass& pass : slots)
      for (const auto& [block, fill] : pass.pinned) pinned.insert(block);
    for (const DeviceTier::Block* block : pinned) {
      const bool wanted = block->found && own.contains(block->generation);
      blocked = blocked || (wanted && block->writes);
      if (!wanted) held += block->pages.size();
    }
    if (all > pages) return PinResult::never;
    return blocked || held + all > pages ? PinResult::later : PinResult::enough;
  }
  void begin(Pass& pass) {
    pass.wants = draw();
    const std::vector<Want> wants = pass.wants;
    pass.wants.clear();
    const PinResult result = expected(wants);
    REQUIRE(tier.pin(wants, pass.pinned) == result);
    CHECK((result == PinResult::enough || pass.pinned.empty()));
    if (result != PinResult::enough) return;
    pass.wants = wants;
    for (std::size_t i = 0; i < wants.size(); ++i) {
      const DeviceTier::Block& block = *pass.pinned[i].block;
      if (pass.pinned[i].fill)
        for (const std::uint32_t page : block.pages) memory[page] = {wants[i].generation, 0};
      else if (block.state == State::ready)
        for (const std::uint32_t page : block.pages)
          CHECK(memory[page] == Contents{wants[i].generation, wants[i].checksum});
    }
  }
  void end(Pass& pass) {
    for (std::size_t i = 0; i < pass.wants.size(); ++i) {
      DeviceTier::Block& block = *pass.pinned[i].block;
      for (const std::uint32_t page : block.pages)
        CHECK(memory[page].first == pass.wants[i].generation);  // no other pass wrote under the pin
      if (!pass.pinned[i].fill) continue;
      const std::uint64_t sum = pass.wants[i].generation * 7;
      if (below(8) == 0) {
        tier.fail(block, State::corrupt);
      } else {
        for (const std::uint32_t page : block.pages) memory[page].second = sum;
        tier.fill(block, sum);
      }
    }
    if (below(12) == 0) tier.forget_all();
    for (const auto& [block, fill] : pass.pinned) tier.unpin(*block);
    pass = {};
  }
  void step() {
    Pass& pass = slots[below(slots.size())];
    pass.pinned.empty() ? begin(pass) : end(pass);
    REQUIRE(tier.check_invariants() == "");
  }
};

TEST_CASE(
    "device tier: random slots find their blocks or fill them, and no pass writes under another's pin") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  for (std::uint64_t run = 0; run < 40; ++run) {
    RandomSlots slots(seed + run);
    for (int i = 0; i < 400; ++i) slots.step();
  }
}

}  // namespace device_tier_test
}  // namespace troupe::actors
