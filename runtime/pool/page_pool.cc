// Keeps the books of a node's page pool: which block owns which pages, who holds it, and which
// block is evicted next. A block is the keys and values of one segment of a prompt. The bytes are
// elsewhere (page_arena.h), so all decisions here are deterministic and cheap to test.
#include "runtime/pool/page_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"

namespace troupe {
namespace {

constexpr std::size_t segment_kinds = static_cast<std::size_t>(SegmentKind::beam) + 1;

std::uint32_t size(const PoolBlock& block) { return static_cast<std::uint32_t>(block.pages.size()); }

}  // namespace

PagePoolSizes pool_sizes(std::uint32_t pages, std::uint32_t page_tokens,
                         std::span<const std::uint32_t> area_pages) {
  TROUPE_CHECK(area_pages.size() <= std::size(area_table), "the pool has no more areas than the table");
  PagePoolSizes sizes{pages, page_tokens, {}};
  for (std::size_t i = 0; i < area_pages.size(); ++i)
    sizes.areas.push_back({area_table[i].kinds, {area_pages[i], 0}});
  return sizes;
}

void merge_area(PagePoolSizes& sizes, PoolArea from, PoolArea into) {
  KindSet& moved = sizes.areas.at(index_of(from)).kinds;
  sizes.areas.at(index_of(into)).kinds |= moved;
  moved = 0;
}

PagePool::PagePool(const PagePoolSizes& sizes, std::uint64_t first_generation)
    : sizes_(sizes),
      areas_(sizes.areas.size()),
      area_of_kind_(segment_kinds),
      owners_(segment_kinds),
      last_generation_(first_generation - 1) {
  TROUPE_CHECK(first_generation > 0, "generations start at 1 or above");
  TROUPE_CHECK(sizes.page_tokens > 0, "a page holds at least one token");
  std::vector<AreaSplit> split;
  for (std::size_t kind = 0; kind < segment_kinds; ++kind) {
    const auto lives = [&](const PagePoolSizes::Area& area) { return (area.kinds >> kind & 1) != 0; };
    TROUPE_CHECK(std::ranges::count_if(sizes.areas, lives) == 1,
                 "every kind of block belongs to exactly one area");
    area_of_kind_[kind] =
        static_cast<PoolArea>(std::ranges::find_if(sizes.areas, lives) - sizes.areas.begin());
  }
  for (const PagePoolSizes::Area& area : sizes.areas) split.push_back(area.split);
  set_split(split);
  if (has_rows()) lent_.resize(sizes.pages);
  free_.resize(sizes.pages);
  for (std::uint32_t i = 0; i < sizes.pages; ++i) free_[i] = sizes.pages - 1 - i;
}

void PagePool::set_split(std::span<const AreaSplit> split) {
  TROUPE_CHECK(split.size() == areas_.size(), "a split has one entry per area");
  std::uint64_t left = sizes_.pages;
  for (std::size_t i = 0; i < split.size(); ++i) {
    TROUPE_CHECK(split[i].pages <= left, "the areas fit into the arena");
    left -= split[i].pages;
    areas_[i].cap = static_cast<std::uint32_t>(split[i].pages);
    areas_[i].least = static_cast<std::uint32_t>(std::min(split[i].least, split[i].pages));
  }
}

const PoolBlock* PagePool::find(const BlockName& name) const { return find_named(name); }

PagePool::Entry* PagePool::find_named(const BlockName& name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

void PagePool::prefetch(const PoolBlock& found) const {
  constexpr std::size_t line = 64;
  const auto* first = reinterpret_cast<const char*>(&entry(found));
  for (std::size_t at = 0; at < sizeof(Entry); at += line) __builtin_prefetch(first + at);
}

void PagePool::prefetch_neighbours(const PoolBlock& found) const {
  const Entry& block = entry(found);
  __builtin_prefetch(block.pages.data());
  if (block.older != nullptr) __builtin_prefetch(&block.older->newer);
  if (block.newer != nullptr) __builtin_prefetch(&block.newer->older);
}

std::uint64_t PagePool::pages_for(std::uint32_t tokens) const {
  return (std::uint64_t{tokens} + sizes_.page_tokens - 1) / sizes_.page_tokens;
}

std::uint32_t PagePool::pages_available(PoolArea area) const {
  const Area& a = areas_[index_of(area)];
  return a.used >= a.cap ? 0 : std::min(a.cap - a.used, free_pages());
}

// ---- evicting ----

bool PagePool::is_unused(const PoolBlock& block) {
  const bool pinned = block.pins > 0;
  return block.state == BlockState::ready && !pinned && !block.removed;
}

// Returns the first evictable block from this one on, in order of use. Few are held at a time.
PagePool::Entry* PagePool::first_evictable(Entry* block) {
  while (block && block->held) block = block->newer;
  return block;
}

double PagePool::worth(const Entry& block, double copy_worth) const {
  if (block.is_copy() && block.kind == SegmentKind::user) return 0;
  return (block.is_copy() ? copy_worth : 1) / static_cast<double>(uses_ + 1 - block.last_use);
}

// Picks blocks by worth; the oldest of each order has the least worth in it. An area that may not
// lend more keeps its blocks.
std::optional<std::vector<PagePool::Entry*>> PagePool::find_displaced(PoolArea mine, std::uint64_t need,
                                                                      double copy_worth) const {
  std::uint64_t most = 0, taken = need;
  std::vector<std::uint64_t> left;  // pages of each area, without displaced blocks
  for (std::size_t i = 0; i < areas_.size(); ++i) {
    left.push_back(areas_[i].used);
    most += areas_[i].cap;
    taken += i == index_of(mine) ? left[i] : std::max<std::uint64_t>(left[i], areas_[i].least);
  }
  std::vector<Entry*> displaced, next;  // copies of all areas, then the others
  for (const Area& area : areas_) next.push_back(first_evictable(area.copies.least_recent));
  for (const Area& area : areas_) next.push_back(first_evictable(area.own.least_recent));
  while (taken > most) {
    Entry** least = nullptr;
    for (std::size_t i = 0; i < next.size(); ++i) {
      const std::size_t where = i % areas_.size();
      if (!next[i] || (where != index_of(mine) && left[where] <= areas_[where].least)) continue;
      if (!least || worth(*next[i], copy_worth) < worth(**least, copy_worth)) least = &next[i];
    }
    if (!least) return std::nullopt;
    displaced.push_back(*least);
    const std::size_t where = index_of(area_of((*least)->kind));
    const std::uint64_t floor = where == index_of(mine) ? 0 : areas_[where].least;
    taken -= left[where] - std::max(left[where] - size(**least), floor);
    left[where] -= size(**least);
    *least = first_evictable((*least)->newer);
  }
  return displaced;
}

PagePool::EvictionPlan PagePool::plan_eviction(SegmentKind kind, std::uint32_t tokens,
                                               double copy_worth) const {
  const auto displaced = find_displaced(area_of(kind), pages_for(tokens), copy_worth);
  if (tokens == 0 || !displaced) return {};
  return {true, {displaced->begin(), displaced->end()}};
}

const PoolBlock* PagePool::reserve_anywhere(const Want& want, double copy_worth) {
  TROUPE_CHECK(find(want.name) == nullptr, "a name is reserved only while it is absent");
  const PoolArea mine = area_of(want.kind);
  const auto displaced = find_displaced(mine, pages_for(want.tokens), copy_worth);
  if (want.tokens == 0 || !displaced) return nullptr;
  for (Entry* block : *displaced) evict(*block);
  const auto need = static_cast<std::uint32_t>(pages_for(want.tokens));
  borrow(mine, areas_[index_of(mine)].used + need);
  return take_pages(want, need);
}

// Raises this area's cap by taking from the others, in order, what they neither use nor must keep.
void PagePool::borrow(PoolArea mine, std::uint32_t cap) {
  Area& to = areas_[index_of(mine)];
  for (Area& from : areas_) {
    if (to.cap >= cap) return;
    const std::uint32_t kept = std::max(from.used, from.least);
    if (&from == &to || from.cap <= kept) continue;
    const std::uint32_t lent = std::min(cap - to.cap, from.cap - kept);
    from.cap -= lent;
    to.cap += lent;
  }
  TROUPE_CHECK(to.cap >= cap, "the pages that find_room found can be borrowed");
}

// True if `need` pages are free after evicting this area down to cap − need, and the others down to
// their caps.
bool PagePool::fits(PoolArea where, std::uint64_t need) const {
  const Area& mine = areas_[index_of(where)];
  if (need > mine.cap || mine.used - mine.evictable + need > mine.cap) return false;
  std::uint64_t pages = std::uint64_t{free_pages()} + mine.evictable;
  for (const Area& area : areas_)
    if (&area != &mine) pages += std::min(area.evictable, area.above());
  return need <= pages;
}

void PagePool::evict_for(PoolArea where, std::uint32_t need, std::span<const BlockName> evict_first) {
  Area& mine = areas_[index_of(where)];
  const auto above_cap = [&] { return mine.used + need > mine.cap; };
  const auto short_of_pages = [&] { return free_pages() < need; };
  for (const BlockName& name : evict_first) {
    if (!above_cap()) break;
    Entry* block = find_named(name);
    if (block && area_of(block->kind) == where && may_evict(*block)) evict(*block);
  }
  while (above_cap()) evict_oldest(mine);
  for (Area& area : areas_)
    while (&area != &mine && short_of_pages() && area.above() > 0 && area.evictable > 0) evict_oldest(area);
  while (short_of_pages()) evict_oldest(mine);  // the rest of their surplus is pinned or held
}

void PagePool::evict_oldest(Area& area) {
  Entry* first = first_evictable(area.copies.least_recent);
  if (!first) first = first_evictable(area.own.least_recent);
  TROUPE_CHECK(first != nullptr, "an evictable block exists for a reservation that fits");
  evict(*first);
}

void PagePool::evict(Entry& block) {
  forget_name(block, true);
  give_back(block);
}

// ---- pages for rows ----

std::vector<std::uint32_t> PagePool::lend(std::uint32_t most) {
  if (!has_rows()) return {};
  Area& mine = areas_[index_of(PoolArea::row)];
  std::uint64_t there = free_pages();
  for (const Area& area : areas_) there += std::min(area.evictable, area.above());
  const std::uint64_t pages_available = mine.cap > mine.used ? mine.cap - mine.used : 0;
  const auto count = static_cast<std::uint32_t>(std::min({std::uint64_t{most}, pages_available, there}));
  if (count == 0) return {};
  evict_for(PoolArea::row, count, {});
  std::vector<std::uint32_t> pages(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  for (const std::uint32_t page : pages) lent_[page] = true;
  mine.used += count;
  return pages;
}

void PagePool::return_pages(std::span<const std::uint32_t> pages) {
  for (const std::uint32_t page : pages) {
    TROUPE_CHECK(page < lent_.size() && lent_[page], "a returned page was lent");
    lent_[page] = false;
    free_.push_back(page);
    --areas_[index_of(PoolArea::row)].used;
  }
}

PagePool::PageHashes PagePool::page_hashes() const {
  PageHashes page_hashes;
  for (const auto& [generation, block] : blocks_) {
    std::uint64_t sum = block.pages.size();
    for (const std::uint32_t page : block.pages) sum = fnv1a_add(sum, page);
    if (block.state == BlockState::ready && !block.removed) page_hashes.emplace_back(generation, sum);
  }
  return page_hashes;
}

std::uint64_t PagePool::pages_moved_since(const PageHashes& then) const {
  const std::map<std::uint64_t, std::uint64_t> before(then.begin(), then.end());
  std::uint64_t pages = 0;
  for (const auto& [generation, sum] : page_hashes())
    if (const auto at = before.find(generation); at != before.end() && at->second != sum)
      pages += size(blocks_.at(generation));
  return pages;
}

// ---- a block's life ----

const PoolBlock* PagePool::reserve(const Want& want, std::span<const BlockName> evict_first) {
  TROUPE_CHECK(find(want.name) == nullptr, "a name is reserved only while it is absent");
  const std::uint64_t need = pages_for(want.tokens);
  const PoolArea where = area_of(want.kind);
  if (need == 0 || !fits(where, need)) return nullptr;
  evict_for(where, static_cast<std::uint32_t>(need), evict_first);
  return take_pages(want, static_cast<std::uint32_t>(need));
}

const PoolBlock* PagePool::take_pages(const Want& want, std::uint32_t need) {
  Entry& block = blocks_.emplace_hint(blocks_.end(), ++last_generation_, Entry())->second;
  static_cast<PoolBlock&>(block) = {want.name, want.kind, want.owner, want.tokens};
  block.generation = last_generation_;
  block.state = want.loading ? BlockState::loading : BlockState::writing;
  block.copy_of = want.copy_of;
  block.pages.assign(free_.rbegin(), free_.rbegin() + need);
  free_.resize(free_.size() - need);
  area(block).used += need;
  KindUsage& held = usage_[static_cast<std::size_t>(block.kind)];
  ++held.blocks, held.pages += need;
  by_name_.emplace(want.name, &block);
  own(block);
  return &block;
}

PagePool::Entry* PagePool::find_held(const BlockName& name, std::uint64_t generation) {
  if (Entry* named = find_named(name); named && named->generation == generation)
    return identical(named->name, name) ? named : nullptr;
  const auto at = blocks_.find(generation);
  return at == blocks_.end() || !identical(at->second.name, name) ? nullptr : &at->second;
}

// Returns the block reserved by this writer, while it is not ready.
PagePool::Entry* PagePool::find_unfinished(const BlockName& name, std::uint64_t generation) {
  Entry* block = find_held(name, generation);
  return block && block->state != BlockState::ready ? block : nullptr;
}

bool PagePool::commit(const BlockName& name, std::uint64_t generation, std::uint64_t checksum, bool checked) {
  Entry* block = find_unfinished(name, generation);
  if (!block) return false;
  if (block->removed) {
    give_back(*block);
    return false;
  }
  block->state = BlockState::ready;
  block->checksum = checksum;
  block->checked = checked;
  mark_unused(*block);
  return true;
}

bool PagePool::abandon(const BlockName& name, std::uint64_t generation) {
  Entry* block = find_unfinished(name, generation);
  if (!block) return false;
  if (!block->removed) forget_name(*block, false);
  give_back(*block);
  return true;
}

// Every block that the pool hands out is an Entry.
PagePool::Entry& PagePool::entry(const PoolBlock& block) {
  return const_cast<Entry&>(static_cast<const Entry&>(block));
}

void PagePool::pin(const PoolBlock& found) {
  Entry& block = entry(found);
  TROUPE_CHECK(block.state == BlockState::ready && !block.removed,
               "a pinned block is ready and can be found");
  if (is_unused(block)) mark_used(block);
  ++block.pins;
}

void PagePool::unpin(const PoolBlock& pinned) {
  Entry& block = entry(pinned);
  TROUPE_CHECK(block.pins > 0, "a block is pinned before it is unpinned");
  if (--block.pins > 0) return;
  if (block.removed) {
    if (!block.held) give_back(block);
  } else {
    mark_unused(block);
  }
}

void PagePool::keep(const PoolBlock& found) {
  Entry& block = entry(found);
  if (!block.is_copy()) return;
  const bool was_unused = is_unused(block);
  if (was_unused) mark_used(block);
  block.copy_of = 0;
  if (was_unused) mark_unused(block);
}

void PagePool::promote_copies_of(NodeId node) {
  for (auto& [generation, block] : blocks_)
    if (block.copy_of == node && !block.removed) keep(block);
}

void PagePool::defer_eviction(const PoolBlock& found) {
  Entry& block = entry(found);
  if (!is_unused(block)) return;
  mark_used(block);
  append(block);
}

void PagePool::set_checked(const PoolBlock& found) { entry(found).checked = true; }

const PoolBlock* PagePool::hold(std::uint64_t generation) {
  const auto at = blocks_.find(generation);
  if (at == blocks_.end()) return nullptr;
  Entry& block = at->second;
  if (block.state != BlockState::ready || block.removed || block.held) return nullptr;
  if (is_unused(block)) area(block).evictable -= size(block);
  block.held = true;
  return &block;
}

void PagePool::release_hold(std::uint64_t generation) {
  const auto at = blocks_.find(generation);
  TROUPE_CHECK(at != blocks_.end() && at->second.held, "only a held block is released");
  Entry& block = at->second;
  block.held = false;
  if (is_unused(block)) area(block).evictable += size(block);
  if (block.removed && block.pins == 0) give_back(block);
}

bool PagePool::remove(const BlockName& name, std::optional<std::uint64_t> generation) {
  Entry* block = find_named(name);
  if (!block || (generation && *generation != block->generation)) return false;
  forget_name(*block, false);
  if (block->state == BlockState::ready && block->pins == 0 && !block->held) give_back(*block);
  return true;
}

void PagePool::forget_name(Entry& block, bool evicted) {
  if (is_unused(block)) mark_used(block);
  if (block.state == BlockState::ready)
    removed_blocks_.push_back({block.name, block.kind, block.owner, block.tokens, block.generation, evicted});
  block.removed = true;
  by_name_.erase(block.name);
  disown(block);
}

void PagePool::give_back(Entry& block) {
  TROUPE_CHECK(block.removed && block.pins == 0 && !block.held,
               "pages are given back only by a removed block that nobody reads");
  give_back_pages(block);
  --usage_[static_cast<std::size_t>(block.kind)].blocks;
  blocks_.erase(block.generation);
}

void PagePool::give_back_pages(Entry& block) {
  area(block).used -= size(block);
  usage_[static_cast<std::size_t>(block.kind)].pages -= size(block);
  free_.insert(free_.end(), block.pages.rbegin(), block.pages.rend());
  block.pages.clear();
  block.tokens = 0;
}

// ---- the lists ----

void PagePool::own(Entry& block) {
  block.owned = &*owners(block).try_emplace(block.owner, nullptr).first;
  block.next = block.owned->second;
  if (block.next) block.next->previous = &block;
  block.owned->second = &block;
}

void PagePool::disown(Entry& block) {
  if (block.next) block.next->previous = block.previous;
  (block.previous ? block.previous->next : block.owned->second) = block.next;
  if (block.owned->second) return;
  Owners& all = owners(block);
  all.erase(all.find(block.owned->first));
}

void PagePool::mark_unused(Entry& block) {
  block.last_use = ++uses_;
  append(block);
}

void PagePool::append(Entry& block) {
  Order& all = order(block);
  block.newer = nullptr;
  block.older = all.most_recent;
  (block.older ? block.older->newer : all.least_recent) = &block;
  all.most_recent = &block;
  if (!block.held) area(block).evictable += size(block);
}

void PagePool::mark_used(Entry& block) {
  Order& all = order(block);
  (block.older ? block.older->newer : all.least_recent) = block.newer;
  (block.newer ? block.newer->older : all.most_recent) = block.older;
  if (!block.held) area(block).evictable -= size(block);
}

// ---- queries ----

std::vector<RemovedBlock> PagePool::take_removed() { return std::exchange(removed_blocks_, {}); }

std::vector<BlockName> PagePool::names_of(SegmentKind kind, const std::string& owner) const {
  std::vector<BlockName> names;
  const Owners& all = owners_[static_cast<std::size_t>(kind)];
  const auto owned = all.find(owner);
  if (owned == all.end()) return names;
  for (const Entry* block = owned->second; block; block = block->next) names.push_back(block->name);
  std::reverse(names.begin(), names.end());
  return names;
}

std::vector<const PoolBlock*> PagePool::ready_after(std::uint64_t generation, std::size_t count) const {
  std::vector<const PoolBlock*> ready;
  for (auto at = blocks_.upper_bound(generation); at != blocks_.end() && ready.size() < count; ++at)
    if (at->second.state == BlockState::ready && !at->second.removed) ready.push_back(&at->second);
  return ready;
}

std::vector<const PoolBlock*> PagePool::last_used(SegmentKind kind) const {
  std::vector<const Entry*> found;
  for (const auto& [generation, block] : blocks_)
    if (block.kind == kind && block.state == BlockState::ready && !block.removed) found.push_back(&block);
  std::ranges::sort(found, [](const Entry* a, const Entry* b) {
    if (is_unused(*a) != is_unused(*b)) return is_unused(*b);  // a pinned block is in use now
    return a->last_use != b->last_use ? a->last_use > b->last_use : a->generation < b->generation;
  });
  return {found.begin(), found.end()};
}

std::string PagePool::check_invariants() const {
  std::string fault = check_blocks();
  return fault.empty() ? check_areas() : fault;
}

std::string PagePool::check_blocks() const {
  std::vector<int> owners(sizes_.pages, 0);
  const auto take = [&](std::uint32_t page) { return page < sizes_.pages && ++owners[page] == 1; };
  for (const std::uint32_t page : free_)
    if (!take(page)) return "page " + std::to_string(page) + " is free twice or does not exist";
  for (std::uint32_t page = 0; page < lent_.size(); ++page)
    if (lent_[page] && !take(page)) return "page " + std::to_string(page) + " is lent and free";
  std::size_t named = 0;
  for (const auto& [generation, block] : blocks_) {
    const auto which = [number = generation] { return "block of generation " + std::to_string(number); };
    for (const std::uint32_t page : block.pages)
      if (!take(page)) return which() + " shares page " + std::to_string(page);
    if (block.pages.size() != pages_for(block.tokens)) return which() + " has the wrong number of pages";
    if (block.generation != generation || generation > last_generation_)
      return which() + " has another generation";
    if (block.removed && block.state == BlockState::ready && block.pins == 0 && !block.held)
      return which() + " is held by nobody";
    if (block.pins > 0 && block.state != BlockState::ready) return which() + " is read before it is written";
    named += !block.removed;
    if (block.removed) continue;
    if (find(block.name) != &block) return which() + " is not found by name";
    if (block.owned->first != block.owner ||
        (block.previous ? block.previous->next : block.owned->second) != &block)
      return which() + " is not found by owner";
  }
  if (named != by_name_.size()) return "names and blocks disagree in number";
  for (std::uint32_t page = 0; page < sizes_.pages; ++page)
    if (owners[page] != 1) return "page " + std::to_string(page) + " is lost";
  return "";
}

std::string PagePool::check_areas() const {
  std::vector<std::uint64_t> used(areas_.size()), is_evictable(areas_.size());
  std::array<KindUsage, 6> held{};
  for (const auto& [generation, block] : blocks_) {
    used[index_of(area_of(block.kind))] += block.pages.size();
    is_evictable[index_of(area_of(block.kind))] += may_evict(block) ? block.pages.size() : 0;
    KindUsage& of_kind = held[static_cast<std::size_t>(block.kind)];
    ++of_kind.blocks, of_kind.pages += static_cast<std::uint32_t>(block.pages.size());
  }
  if (has_rows()) used[index_of(PoolArea::row)] = static_cast<std::uint64_t>(std::ranges::count(lent_, true));
  if (held != usage_) return "blocks by kind disagree";
  std::uint64_t caps = 0;
  for (std::size_t i = 0; i < areas_.size(); ++i) {
    std::uint64_t listed = 0;
    for (const Order* order : {&areas_[i].own, &areas_[i].copies}) {
      const Entry* older = nullptr;
      for (const Entry* block = order->least_recent; block; older = block, block = block->newer) {
        if (block->older != older || !is_unused(*block)) return "the order of use is torn";
        if (block->is_copy() != (order == &areas_[i].copies)) return "a copy is among the others";
        listed += block->held ? 0 : block->pages.size();
      }
      if (older != order->most_recent) return "the order of use ends elsewhere";
    }
    if (used[i] != areas_[i].used) return "used pages disagree";
    if (is_evictable[i] != areas_[i].evictable || listed != is_evictable[i])
      return "evictable pages disagree";
    if (areas_[i].cap < areas_[i].least) return "an area's cap is below what it may not lend";
    caps += areas_[i].cap;
  }
  return caps <= sizes_.pages ? "" : "the areas' caps exceed the pool's pages";
}

}  // namespace troupe
