// Compares the pool with a naive one on random operations. The closed-form test whether a
// reservation fits, the order of eviction and all counts must equal those of a version that simply
// tries.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "runtime/pool/page_pool.h"

using namespace troupe;

namespace {

BlockName named(std::uint32_t n) {
  BlockName name;
  for (int i = 0; i < 4; ++i) name.bytes[i] = static_cast<std::uint8_t>(n >> (8 * i));
  return name;
}

// Implements the same rules by scanning lists: there are no counts to go wrong, and a reservation
// is tried on a copy.
struct NaivePool {
  struct Block {
    std::uint32_t n;
    PoolArea area;
    std::uint32_t pages;
    std::uint64_t generation, last_use;
    bool ready = false, removed = false, held = false;
    std::uint32_t pins = 0;
  };
  std::uint32_t total, caps[2];
  std::vector<Block> blocks;
  std::vector<std::uint64_t> gone;  // generations
  std::uint64_t generations = 0, uses = 0;

  std::uint32_t used(PoolArea area) const {
    std::uint32_t pages = 0;
    for (const Block& b : blocks) pages += b.area == area ? b.pages : 0;
    return pages;
  }
  std::uint32_t free() const { return total - used(PoolArea::item) - used(PoolArea::user); }
  Block* find(std::uint32_t n) {
    for (Block& b : blocks)
      if (b.n == n && !b.removed) return &b;
    return nullptr;
  }
  void erase(std::uint64_t generation) {
    std::erase_if(blocks, [&](const Block& b) { return b.generation == generation; });
  }
  bool evict(Block* b) {
    if (!b || !b->ready || b->pins || b->removed || b->held) return false;
    gone.push_back(b->generation);
    erase(b->generation);
    return true;
  }
  bool evict_oldest(PoolArea area) {
    Block* oldest = nullptr;
    for (Block& b : blocks)
      if (b.area == area && b.ready && !b.pins && !b.removed && !b.held &&
          (!oldest || b.last_use < oldest->last_use))
        oldest = &b;
    return evict(oldest);
  }
  bool try_reserve(std::uint32_t n, PoolArea area, std::uint32_t need,
                   const std::vector<std::uint32_t>& hints) {
    const PoolArea other = area == PoolArea::item ? PoolArea::user : PoolArea::item;
    const auto above = [&] { return used(area) + need > caps[static_cast<int>(area)]; };
    for (const std::uint32_t hint : hints)
      if (Block* b = find(hint); above() && b && b->area == area) evict(b);
    while (above())
      if (!evict_oldest(area)) return false;
    while (free() < need && used(other) > caps[static_cast<int>(other)])
      if (!evict_oldest(other)) break;
    while (free() < need)
      if (!evict_oldest(area)) return false;
    blocks.push_back({n, area, need, ++generations, ++uses});
    return true;
  }
  bool reserve(std::uint32_t n, PoolArea area, std::uint32_t need, const std::vector<std::uint32_t>& hints) {
    NaivePool copy = *this;
    if (need == 0 || !copy.try_reserve(n, area, need, hints)) return false;
    *this = std::move(copy);
    return true;
  }
};

bool reserve_anywhere(NaivePool& pool, std::uint32_t n, PoolArea area, std::uint32_t need) {
  NaivePool copy = pool;
  const std::uint32_t both = copy.caps[0] + copy.caps[1];
  while (copy.used(PoolArea::item) + copy.used(PoolArea::user) + need > both) {
    NaivePool::Block* oldest = nullptr;
    for (NaivePool::Block& b : copy.blocks)
      if (b.ready && !b.pins && !b.removed && !b.held && (!oldest || b.last_use < oldest->last_use))
        oldest = &b;
    if (!copy.evict(oldest)) return false;
  }
  std::uint32_t& cap = copy.caps[static_cast<int>(area)];
  cap = std::max(cap, copy.used(area) + need);
  copy.caps[area == PoolArea::item ? 1 : 0] = both - cap;
  copy.blocks.push_back({n, area, need, ++copy.generations, ++copy.uses});
  pool = std::move(copy);
  return true;
}

struct HeldBlock {
  std::uint32_t n;
  std::uint64_t generation;
  const PoolBlock* block = nullptr;  // of a reader
};

// Runs one random operation on both pools and compares their answers.
struct Pair {
  static constexpr std::uint32_t pages = 40, page_tokens = 4, names = 30;
  std::mt19937_64 random;
  PagePool pool{pool_sizes(pages, page_tokens, {25, 15})};
  NaivePool naive{pages, {25, 15}};
  std::vector<HeldBlock> writers, readers, stale, held;
  int refused = 0, granted = 0;

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); }

  void reserve() {
    const std::uint32_t n = below(names), tokens = below(40);
    if (naive.find(n)) return;
    const SegmentKind kind = n % 3 == 0   ? SegmentKind::user
                             : n % 3 == 1 ? SegmentKind::item
                                          : SegmentKind::system;
    std::vector<std::uint32_t> hints(below(4));
    std::vector<BlockName> hint_names;
    for (std::uint32_t& hint : hints) hint_names.push_back(named(hint = below(names)));
    const bool expected = naive.reserve(n, area_of(kind), (tokens + page_tokens - 1) / page_tokens, hints);
    const PoolBlock* block =
        pool.reserve({named(n), kind, std::to_string(n % 5), tokens, below(2) == 0}, hint_names);
    REQUIRE((block != nullptr) == expected);
    ++(block ? granted : refused);
    if (!block) return;
    REQUIRE(block->generation == naive.generations);
    REQUIRE(pool.used(area_of(kind)) <= pool.cap(area_of(kind)));
    writers.push_back({n, block->generation});
  }

  HeldBlock take(std::vector<HeldBlock>& from) {
    const std::size_t at = below(static_cast<std::uint32_t>(from.size()));
    const HeldBlock held = from[at];
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(at));
    return held;
  }

  NaivePool::Block& model(std::uint64_t generation) {
    return *std::ranges::find(naive.blocks, generation, &NaivePool::Block::generation);
  }

  void finish_write() {
    if (writers.empty()) return;
    const HeldBlock held = take(writers);
    stale.push_back(held);
    NaivePool::Block& block = model(held.generation);
    if (below(4) == 0) {
      REQUIRE(pool.abandon(named(held.n), held.generation));
      naive.erase(held.generation);
      return;
    }
    REQUIRE(pool.commit(named(held.n), held.generation, held.generation) == !block.removed);
    if (block.removed) {
      naive.erase(held.generation);
    } else {
      block.ready = true;
      block.last_use = ++naive.uses;
    }
  }

  void pin() {
    const std::uint32_t n = below(names);
    NaivePool::Block* block = naive.find(n);
    const PoolBlock* got = pool.find(named(n));
    if (got && got->state != BlockState::ready) got = nullptr;
    REQUIRE((got != nullptr) == (block && block->ready));
    if (!got) return;
    pool.pin(*got);
    REQUIRE(got->generation == block->generation);
    REQUIRE(got->checksum == block->generation);
    ++block->pins;
    readers.push_back({n, got->generation, got});
  }

  void unpin() {
    if (readers.empty()) return;
    const HeldBlock held = take(readers);
    pool.unpin(*held.block);
    NaivePool::Block& block = model(held.generation);
    block.last_use = ++naive.uses;
    if (--block.pins == 0 && block.removed && !block.held) naive.erase(held.generation);
  }

  void remove() {
    const std::uint32_t n = below(names);
    NaivePool::Block* block = naive.find(n);
    REQUIRE(pool.remove(named(n)) == (block != nullptr));
    if (!block) return;
    block->removed = true;
    if (block->ready) naive.gone.push_back(block->generation);
    if (block->ready && block->pins == 0 && !block->held) naive.erase(block->generation);
  }

  void touch() {
    const std::uint32_t n = below(names);
    NaivePool::Block* block = naive.find(n);
    if (!block || !block->ready) return;
    const PoolBlock& found = *pool.find(named(n));
    pool.pin(found), pool.unpin(found);
    block->last_use = ++naive.uses;
  }

  void split() {
    naive.caps[0] = below(pages + 1);
    naive.caps[1] = below(pages + 1 - naive.caps[0]);
    pool.set_split(std::vector<AreaSplit>{{naive.caps[0]}, {naive.caps[1]}});
  }

  void reserve_either() {
    const std::uint32_t n = below(names), tokens = below(8 * page_tokens);
    if (naive.find(n)) return;
    const SegmentKind kind = n % 3 == 0 ? SegmentKind::user : SegmentKind::item;
    const std::uint32_t need = (tokens + page_tokens - 1) / page_tokens;
    const bool expected = need > 0 && reserve_anywhere(naive, n, area_of(kind), need);
    const PoolBlock* block = pool.reserve_anywhere({named(n), kind, std::to_string(n % 5), tokens}, 1);
    REQUIRE((block != nullptr) == expected);
    for (const PoolArea area : {PoolArea::item, PoolArea::user})
      REQUIRE(pool.cap(area) == naive.caps[static_cast<int>(area)]);
    ++(block ? granted : refused);
    if (block) writers.push_back({n, block->generation});
  }

  void hold() {
    const std::uint64_t generation =
        naive.generations + 1 -
        below(std::min<std::uint32_t>(30, static_cast<std::uint32_t>(naive.generations) + 1));
    const auto block = std::ranges::find(naive.blocks, generation, &NaivePool::Block::generation);
    const bool expected =
        block != naive.blocks.end() && block->ready && !block->removed && !block->held && held.size() < 3;
    if (held.size() >= 3) return;
    REQUIRE((pool.hold(generation) != nullptr) == expected);
    if (!expected) return;
    block->held = true;
    held.push_back({block->n, generation});
  }

  void release_hold() {
    if (held.empty()) return;
    const HeldBlock one = take(held);
    pool.release_hold(one.generation);
    NaivePool::Block& block = model(one.generation);
    block.held = false;
    if (block.removed && block.pins == 0) naive.erase(one.generation);
  }

  void repeat_stale() {  // repeated messages
    if (stale.empty()) return;
    const HeldBlock held = stale[below(static_cast<std::uint32_t>(stale.size()))];
    REQUIRE_FALSE(pool.commit(named(held.n), held.generation, 0));
    REQUIRE_FALSE(pool.abandon(named(held.n), held.generation));
  }

  void step() {
    const std::uint32_t what = below(100);
    if (what < 30) return reserve();
    if (what < 50) return finish_write();
    if (what < 65) return pin();
    if (what < 80) return unpin();
    if (what < 86) return remove();
    if (what < 90) return touch();
    if (what < 93) return below(2) == 0 || held.empty() ? hold() : release_hold();
    if (what < 96) return repeat_stale();
    what < 98 ? reserve_either() : split();
  }

  void compare() {
    REQUIRE(pool.check_invariants() == "");
    REQUIRE(pool.free_pages() == naive.free());
    for (const PoolArea area : {PoolArea::item, PoolArea::user}) REQUIRE(pool.used(area) == naive.used(area));
    std::vector<std::uint64_t> gone;
    for (const RemovedBlock& block : pool.take_removed()) gone.push_back(block.generation);
    REQUIRE(gone == naive.gone);
    naive.gone.clear();
    for (std::uint32_t n = 0; n < names; ++n) {
      const PoolBlock* block = pool.find(named(n));
      const NaivePool::Block* expected = naive.find(n);
      REQUIRE((block == nullptr) == (expected == nullptr));
      if (block) REQUIRE(block->generation == expected->generation);
    }
    const std::uint64_t after = naive.generations > 10 ? naive.generations - 10 : 0;
    std::vector<std::uint64_t> listed, ready;
    for (const PoolBlock* block : pool.ready_after(after, 3)) listed.push_back(block->generation);
    for (const NaivePool::Block& block : naive.blocks)
      if (block.ready && !block.removed && block.generation > after && ready.size() < 3)
        ready.push_back(block.generation);
    REQUIRE(listed == ready);
  }
};

}  // namespace

TEST_CASE("page pool: 20,000 random operations give the same as a naive pool") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  Pair pair{std::mt19937_64(seed)};
  for (int i = 0; i < 20000; ++i) {
    CAPTURE(i);
    pair.step();
    pair.compare();
  }
  CHECK(pair.granted > 1000);
  CHECK(pair.refused > 100);
}
