#include "runtime/pages/page_pool.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/actor/planted.h"

namespace troupe {
namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "page_pool: violated: %s\n", what);
  std::abort();
}

PoolArea other(PoolArea area) { return area == PoolArea::item ? PoolArea::user : PoolArea::item; }

std::uint32_t size(const PoolBlock& block) { return static_cast<std::uint32_t>(block.pages.size()); }

}  // namespace

PoolArea area_of(SegmentKind kind) { return kind == SegmentKind::user ? PoolArea::user : PoolArea::item; }

std::size_t PagePool::NameHash::operator()(const BlockName& name) const {
  // Names are cryptographic hashes: any bytes of them are as good as all. Equal names have equal hashes.
  std::size_t head = 0;
#ifdef TROUPE_PLANTED
  const std::size_t size = std::min<std::size_t>(sizeof head, planting::name_bits / 8);
#else
  constexpr std::size_t size = sizeof head;
#endif
  std::memcpy(&head, name.bytes.data(), size);
  return head;
}

PagePool::PagePool(const PagePoolSizes& sizes, std::uint64_t first_generation)
    : sizes_(sizes), last_generation_(first_generation - 1) {
  check(first_generation > 0, "generations start at 1 or above");
  check(sizes.page_tokens > 0, "a page holds at least one token");
  set_split(sizes.item_pages, sizes.user_pages);
  free_.resize(sizes.pages);
  for (std::uint32_t i = 0; i < sizes.pages; ++i) free_[i] = sizes.pages - 1 - i;
}

void PagePool::set_split(std::uint32_t item_pages, std::uint32_t user_pages) {
  check(std::uint64_t{item_pages} + user_pages <= sizes_.pages, "the areas fit into the arena");
  areas_[index(PoolArea::item)].cap = item_pages;
  areas_[index(PoolArea::user)].cap = user_pages;
}

const PoolBlock* PagePool::find(const BlockName& name) const { return find_named(name); }

PagePool::Entry* PagePool::find_named(const BlockName& name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

std::uint64_t PagePool::pages_for(std::uint32_t tokens) const {
  return (std::uint64_t{tokens} + sizes_.page_tokens - 1) / sizes_.page_tokens;
}

std::uint32_t PagePool::room(PoolArea area) const {
  const Area& a = areas_[index(area)];
  return a.used >= a.cap ? 0 : std::min(a.cap - a.used, free_pages());
}

// ---- making room ----

bool PagePool::may_evict(const PoolBlock& block) {
  const bool held = block.pins > 0 && !planted(Bug::free_pinned_page);
  return block.state == BlockState::ready && !held && !block.removed;
}

double PagePool::worth(const Entry& block, double copy_worth) const {
  if (block.copy && block.kind == SegmentKind::user) return 0;
  return (block.copy ? copy_worth : 1) / static_cast<double>(uses_ + 1 - block.last_use);
}

// The oldest of each order is the one of least worth there.
std::optional<std::vector<PagePool::Entry*>> PagePool::find_room(std::uint64_t need,
                                                                 double copy_worth) const {
  const std::uint64_t filled = std::uint64_t{areas_[0].used} + areas_[1].used + need;
  const std::uint64_t most = std::uint64_t{areas_[0].cap} + areas_[1].cap;
  std::uint64_t lacking = filled > most ? filled - most : 0;
  std::vector<Entry*> displaced;
  Entry* next[] = {areas_[0].copies.least_recent, areas_[1].copies.least_recent, areas_[0].own.least_recent,
                   areas_[1].own.least_recent};
  while (lacking > 0) {
    Entry** least = nullptr;
    for (Entry*& block : next)
      if (block && (!least || worth(*block, copy_worth) < worth(**least, copy_worth))) least = &block;
    if (!least) return std::nullopt;
    displaced.push_back(*least);
    lacking -= std::min<std::uint64_t>(lacking, size(**least));
    *least = (*least)->newer;
  }
  return displaced;
}

PagePool::Room PagePool::room_anywhere(std::uint32_t tokens, double copy_worth) const {
  const auto displaced = find_room(pages_for(tokens), copy_worth);
  if (tokens == 0 || !displaced) return {};
  return {true, {displaced->begin(), displaced->end()}};
}

const PoolBlock* PagePool::reserve_anywhere(const Want& want, double copy_worth) {
  check(find(want.name) == nullptr, "a name is reserved only while it is absent");
  const auto displaced = find_room(pages_for(want.tokens), copy_worth);
  if (want.tokens == 0 || !displaced) return nullptr;
  for (Entry* block : *displaced) evict(*block);
  const auto need = static_cast<std::uint32_t>(pages_for(want.tokens));
  Area& mine = areas_[index(area_of(want.kind))];
  Area& theirs = areas_[index(other(area_of(want.kind)))];
  const std::uint32_t grown = std::max(mine.cap, mine.used + need);
  theirs.cap -= grown - mine.cap;
  mine.cap = grown;
  return take_pages(want, need);
}

// Evicting this area down to cap − need, and the other one as far as it is above its own cap, must leave
// `need` pages. If the other area can come down to its cap, the caps' sum says that there is room.
bool PagePool::fits(PoolArea area, std::uint64_t need) const {
  const Area& mine = areas_[index(area)];
  const Area& theirs = areas_[index(other(area))];
  if (need > mine.cap || mine.used - mine.evictable + need > mine.cap) return false;
  const std::uint32_t above = theirs.used > theirs.cap ? theirs.used - theirs.cap : 0;
  if (theirs.evictable >= above) return true;
  return need <= std::uint64_t{free_pages()} + mine.evictable + theirs.evictable;
}

void PagePool::make_room(PoolArea area, std::uint32_t need, std::span<const BlockName> evict_first) {
  const Area& mine = areas_[index(area)];
  const Area& theirs = areas_[index(other(area))];
  const auto above_cap = [&] { return mine.used + need > mine.cap; };
  const auto short_of_pages = [&] { return free_pages() < need; };
  for (const BlockName& name : evict_first) {
    if (!above_cap()) break;
    Entry* block = find_named(name);
    if (block && area_of(block->kind) == area && may_evict(*block)) evict(*block);
  }
  while (above_cap()) evict_oldest(area);
  while (short_of_pages() && theirs.used > theirs.cap && theirs.evictable > 0) evict_oldest(other(area));
  while (short_of_pages()) evict_oldest(area);  // the rest of their surplus is held
}

void PagePool::evict_oldest(PoolArea area) {
  const Area& a = areas_[index(area)];
  Entry* first = a.copies.least_recent ? a.copies.least_recent : a.own.least_recent;
  check(first != nullptr, "room that was promised can be made");
  evict(*first);
}

void PagePool::evict(Entry& block) {
  forget_name(block, true);
  give_back(block);
}

// ---- the life of a block ----

const PoolBlock* PagePool::reserve(const Want& want, std::span<const BlockName> evict_first) {
  check(find(want.name) == nullptr, "a name is reserved only while it is absent");
  const std::uint64_t need = pages_for(want.tokens);
  const PoolArea where = area_of(want.kind);
  if (need == 0 || !fits(where, need)) return nullptr;
  make_room(where, static_cast<std::uint32_t>(need), evict_first);
  return take_pages(want, static_cast<std::uint32_t>(need));
}

const PoolBlock* PagePool::take_pages(const Want& want, std::uint32_t need) {
  Entry& block = blocks_.emplace_hint(blocks_.end(), ++last_generation_, Entry())->second;
  static_cast<PoolBlock&>(block) = {want.name, want.kind, want.owner, want.tokens};
  block.generation = last_generation_;
  block.state = want.loading ? BlockState::loading : BlockState::writing;
  block.copy = want.copy;
  block.pages.assign(free_.rbegin(), free_.rbegin() + need);
  free_.resize(free_.size() - need);
  area(block).used += need;
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

// The block that this writer was given, while it is not ready.
PagePool::Entry* PagePool::find_unfinished(const BlockName& name, std::uint64_t generation) {
  Entry* block = find_held(name, generation);
  if (planted(Bug::skip_generation_check) && !block) block = find_named(name);
  return block && block->state != BlockState::ready ? block : nullptr;
}

bool PagePool::commit(const BlockName& name, std::uint64_t generation, std::uint64_t checksum) {
  Entry* block = find_unfinished(name, generation);
  if (!block) return false;
  if (block->removed) {
    give_back(*block);
    return false;
  }
  block->state = BlockState::ready;
  block->checksum = checksum;
  start_evictable(*block);
  return true;
}

bool PagePool::abandon(const BlockName& name, std::uint64_t generation) {
  Entry* block = find_unfinished(name, generation);
  if (!block) return false;
  if (!block->removed) forget_name(*block, false);
  give_back(*block);
  return true;
}

const PoolBlock* PagePool::pin(const BlockName& name) {
  Entry* block = find_named(name);
  if (!block || block->state != BlockState::ready) return nullptr;
  if (may_evict(*block)) stop_evictable(*block);
  ++block->pins;
  if (may_evict(*block)) start_evictable(*block);  // only with a planted bug
  return block;
}

bool PagePool::unpin(const BlockName& name, std::uint64_t generation) {
  Entry* block = find_held(name, generation);
  if (!block || block->pins == 0) return false;
  const bool was_evictable = may_evict(*block);  // only with a planted bug
  if (--block->pins > 0) return true;
  if (block->removed) {
    give_back(*block);
  } else if (!was_evictable) {
    start_evictable(*block);
  }
  return true;
}

void PagePool::touch(const BlockName& name) {
  Entry* block = find_named(name);
  if (!block) return;
  const bool listed = may_evict(*block);
  if (listed) stop_evictable(*block);
  block->copy = false;
  if (listed) start_evictable(*block);
}

void PagePool::pass_over(const BlockName& name) {
  Entry* block = find_named(name);
  if (!block || !may_evict(*block)) return;
  stop_evictable(*block);
  append(*block);
}

bool PagePool::remove(const BlockName& name, std::optional<std::uint64_t> generation) {
  Entry* block = find_named(name);
  if (!block || (generation && *generation != block->generation)) return false;
  forget_name(*block, false);
  if (block->state == BlockState::ready && block->pins == 0) give_back(*block);
  return true;
}

void PagePool::forget_name(Entry& block, bool evicted) {
  if (may_evict(block)) stop_evictable(block);
  if (block.state == BlockState::ready)
    gone_.push_back({block.name, block.kind, block.owner, block.tokens, block.generation, evicted});
  block.removed = true;
  by_name_.erase(block.name);
  disown(block);
}

void PagePool::give_back(Entry& block) {
  const bool held = block.pins > 0 && !planted(Bug::free_pinned_page);
  check(block.removed && !held, "pages are given back only by a removed block that nobody reads");
  area(block).used -= size(block);
  free_.insert(free_.end(), block.pages.rbegin(), block.pages.rend());
  blocks_.erase(block.generation);
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

void PagePool::start_evictable(Entry& block) {
  block.last_use = ++uses_;
  append(block);
}

void PagePool::append(Entry& block) {
  Order& all = order(block);
  block.newer = nullptr;
  block.older = all.most_recent;
  (block.older ? block.older->newer : all.least_recent) = &block;
  all.most_recent = &block;
  area(block).evictable += size(block);
}

void PagePool::stop_evictable(Entry& block) {
  Order& all = order(block);
  (block.older ? block.older->newer : all.least_recent) = block.newer;
  (block.newer ? block.newer->older : all.most_recent) = block.older;
  area(block).evictable -= size(block);
}

// ---- what is there ----

std::vector<BlockGone> PagePool::take_gone() { return std::exchange(gone_, {}); }

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

std::string PagePool::check_invariants() const {
  std::string fault = check_blocks();
  return fault.empty() ? check_areas() : fault;
}

std::string PagePool::check_blocks() const {
  std::vector<int> owners(sizes_.pages, 0);
  const auto take = [&](std::uint32_t page) { return page < sizes_.pages && ++owners[page] == 1; };
  for (const std::uint32_t page : free_)
    if (!take(page)) return "page " + std::to_string(page) + " is free twice or does not exist";
  std::size_t named = 0;
  for (const auto& [generation, block] : blocks_) {
    const std::string which = "block of generation " + std::to_string(generation);
    for (const std::uint32_t page : block.pages)
      if (!take(page)) return which + " shares page " + std::to_string(page);
    if (block.pages.size() != pages_for(block.tokens)) return which + " has the wrong number of pages";
    if (block.generation != generation || generation > last_generation_)
      return which + " has another generation";
    if (block.removed && block.state == BlockState::ready && block.pins == 0)
      return which + " is held by nobody";
    if (block.pins > 0 && block.state != BlockState::ready) return which + " is read before it is written";
    named += !block.removed;
    if (block.removed) continue;
    if (find(block.name) != &block) return which + " is not found by name";
    if (block.owned->first != block.owner ||
        (block.previous ? block.previous->next : block.owned->second) != &block)
      return which + " is not found by owner";
  }
  if (named != by_name_.size()) return "names and blocks disagree in number";
  for (std::uint32_t page = 0; page < sizes_.pages; ++page)
    if (owners[page] != 1) return "page " + std::to_string(page) + " is lost";
  return "";
}

std::string PagePool::check_areas() const {
  std::uint64_t used[2] = {}, may_go[2] = {};
  for (const auto& [generation, block] : blocks_) {
    used[index(area_of(block.kind))] += block.pages.size();
    may_go[index(area_of(block.kind))] += may_evict(block) ? block.pages.size() : 0;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    std::uint64_t listed = 0;
    for (const Order* order : {&areas_[i].own, &areas_[i].copies}) {
      const Entry* older = nullptr;
      for (const Entry* block = order->least_recent; block; older = block, block = block->newer) {
        if (block->older != older || !may_evict(*block)) return "the order of use is torn";
        if (block->copy != (order == &areas_[i].copies)) return "a copy is among the others";
        listed += block->pages.size();
      }
      if (older != order->most_recent) return "the order of use ends elsewhere";
    }
    if (used[i] != areas_[i].used) return "used pages disagree";
    if (may_go[i] != areas_[i].evictable || listed != may_go[i]) return "evictable pages disagree";
  }
  return "";
}

}  // namespace troupe
