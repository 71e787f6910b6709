#pragma once
// Who owns which page of one node's arena. The KV-cache worker's core holds the one PagePool of its node; the
// pool has no bytes, threads or clock, so the same calls always give the same answers. Pages of one range
// serve all areas (items and system prompts; users; see pool_areas.h), whose sizes are a matter of
// accounting: moving a boundary copies nothing, and an area that became too large gives pages up when the
// next reservation needs them. Boundaries are the allocator agent's: it says how many pages each area has and
// how many of them it may lend at most, and `reserve_anywhere` borrows within that.
//
// A block goes reserve → writing or loading → commit → ready → evicted or removed. Every reservation has its
// own generation, so whatever arrives late about an older one is recognised and ignored.
//
// The pool finds by name as containers do. Whoever uses a block that it found checks `identical` (messages.h)
// first, and does not reserve a name that finds another block.
//
// Pages of the row area are lent to whoever keeps rows of embedding tables there (row_slab.h): they are in no
// block, and come back when the borrower says so.
#include <boost/unordered/unordered_flat_map.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/actor/block_name.h"
#include "runtime/actor/messages.h"
#include "runtime/pool/pool_areas.h"

namespace troupe {

enum class BlockState : std::uint8_t { writing, loading, ready };

struct PoolBlock {
  BlockName name;
  SegmentKind kind = SegmentKind::item;
  std::string owner;
  std::uint32_t tokens = 0;
  std::vector<std::uint32_t> pages;  // in token order
  std::uint64_t generation = 0;      // rising, never used twice by one pool
  BlockState state = BlockState::writing;
  std::uint32_t pins = 0;      // readers; a block that is not ready is held by its writer instead
  std::uint64_t checksum = 0;  // of the bytes, once ready
  NodeId copy_of = 0;          // the node that has it too, and so it is of less worth here; 0: it is no copy
  bool checked = false;        // ready: its bytes were compared with the checksum since they came here
  bool removed = false;        // gone by name; its pages follow when the last holder lets go

  bool is_copy() const { return copy_of != 0; }
};

// A ready block that can no longer be found: what the index must be told.
struct BlockGone {
  BlockName name;
  SegmentKind kind = SegmentKind::item;
  std::string owner;
  std::uint32_t tokens = 0;
  std::uint64_t generation = 0;
  bool evicted = false;  // for room; otherwise `remove` was called
};

struct PagePoolSizes {
  struct Area {
    KindSet kinds = 0;  // every kind lives in one area
    AreaSplit split;
  };
  std::uint32_t pages = 0;        // of the arena: the hard cap
  std::uint32_t page_tokens = 0;  // at least 1
  std::vector<Area> areas;        // whose pages are together at most `pages`
};
// With the areas of the table, of so many pages each: the first of them, as many as are named.
PagePoolSizes pool_sizes(std::uint32_t pages, std::uint32_t page_tokens,
                         std::span<const std::uint32_t> area_pages);
inline PagePoolSizes pool_sizes(std::uint32_t pages, std::uint32_t page_tokens,
                                std::initializer_list<std::uint32_t> area_pages) {
  return pool_sizes(pages, page_tokens, std::span(area_pages.begin(), area_pages.size()));
}

// Pointers to blocks stay valid until the block's pages are given back. Finding, pinning and
// unpinning are O(1); a block that comes or goes costs O(log blocks) plus its pages. Nodes have ten thousands
// of blocks and requests touch a hundred, so what is touched in memory per block counts.
class PagePool {
 public:
  // Generations start at `first_generation`, from 1: an owner passes its incarnation, so that those of
  // earlier processes are recognised too.
  explicit PagePool(const PagePoolSizes& sizes, std::uint64_t first_generation = 1);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Null if there is no such block; its state may be any.
  const PoolBlock* find(const BlockName& name) const;
  // What pinning or unpinning it touches will be asked for soon: fetched while others are looked up.
  void prefetch(const PoolBlock& found) const;
  void prefetch_neighbours(const PoolBlock& found) const;  // once that has come

  struct Want {
    BlockName name;  // not in the pool now
    SegmentKind kind = SegmentKind::item;
    std::string owner;
    std::uint32_t tokens = 0;
    bool loading = false;  // from the persistent tier, instead of being computed
    NodeId copy_of = 0;    // this node has it and goes on having it; 0: none does
  };
  // Room is made by evicting ready, unpinned blocks of the same area: those hinted first, in their order,
  // then copies, then the others, the least recently used first (a use lasts until its pin ends); and blocks
  // of other areas only as far as those are above their caps. If that is not enough, or `tokens` is 0, the
  // answer is null and nothing was evicted. The new block is held until commit or abandon.
  const PoolBlock* reserve(const Want& want, std::span<const BlockName> evict_first = {});

  // All areas as one, as far as they may lend: what goes first is worth least, which is one over the uses of
  // all blocks since its own last one, times `copy_worth` (0 to 1) for a copy.
  struct Room {
    bool possible = false;                    // else what is pinned or unfinished takes it
    std::vector<const PoolBlock*> displaced;  // in that order; none while there is room without
  };
  Room room_anywhere(SegmentKind kind, std::uint32_t tokens, double copy_worth) const;
  // Out of that room; its area borrows of the others what the block needs beyond its own pages. Null, and
  // nothing has changed, if there is none.
  const PoolBlock* reserve_anywhere(const Want& want, double copy_worth);

  // The writer's word; false if the generation is stale or the block was removed meanwhile (its pages are
  // free now). `checked`: its bytes were compared with the checksum where they lie.
  bool commit(const BlockName& name, std::uint64_t generation, std::uint64_t checksum, bool checked = false);
  bool abandon(const BlockName& name, std::uint64_t generation);

  // A pin keeps the pages of a ready block, and the block. Whoever has found or pinned it passes it by
  // reference, and no table is asked again.
  void pin(const PoolBlock& found);
  void unpin(const PoolBlock& pinned);
  void pass_over(const PoolBlock& found);  // others of its area go first from now on, though it was not used
  void keep(const PoolBlock& found);       // it is no copy any more
  void keep_copies_of(NodeId node);        // which has them no more: nor are they
  void set_checked(const PoolBlock& found);
  static bool may_go(const PoolBlock& found) { return may_evict(entry(found)); }  // nobody uses or holds it

  // Somebody reads the pages without using the block: they are not given away meanwhile, and its place in
  // the order of use stays. Null if there is no ready block of this generation, or it is held so already.
  const PoolBlock* hold(std::uint64_t generation);
  void let_go(std::uint64_t generation);

  // The block cannot be found from now on; pages under a pin or a writer are given back when that ends. With
  // a generation: only if it is still that one. False if there was nothing to remove.
  bool remove(const BlockName& name, std::optional<std::uint64_t> generation = {});

  // Ready blocks evicted or removed since the last call, in order.
  std::vector<BlockGone> take_gone();

  // Names of the owner's blocks in any state, oldest reservation first.
  std::vector<BlockName> names_of(SegmentKind kind, const std::string& owner) const;
  // The first `count` ready blocks with a generation above this one, in order of it: a part of the inventory
  // that an empty index learns from.
  std::vector<const PoolBlock*> ready_after(std::uint64_t generation, std::size_t count) const;
  std::vector<const PoolBlock*> last_used(
      SegmentKind kind) const;  // ready ones, those first that were used last
  std::uint64_t last_generation() const { return last_generation_; }

  // Pages for rows, at most so many, as far as their area has them: free ones, and those of blocks that are
  // in the way because other areas are above their caps.
  std::vector<std::uint32_t> lend(std::uint32_t most);
  void take_back(std::span<const std::uint32_t> pages);  // that were lent
  // Where each ready block's pages are: its generation, and a sum over their numbers.
  using Places = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  Places places() const;
  // Pages of blocks that were there then, still are, and lie elsewhere.
  std::uint64_t moved_since(const Places& then) const;

  // One for each area, together at most the arena's pages. What was borrowed is given back; nothing is
  // evicted now.
  void set_split(std::span<const AreaSplit> split);

  std::uint32_t pages() const { return sizes_.pages; }
  std::uint32_t page_tokens() const { return sizes_.page_tokens; }
  std::uint32_t free_pages() const { return static_cast<std::uint32_t>(free_.size()); }
  std::size_t areas() const { return areas_.size(); }
  // An area of that number in which no block lives.
  bool has_rows() const {
    return areas_.size() > index_of(PoolArea::row) &&
           std::ranges::find(area_of_kind_, PoolArea::row) == area_of_kind_.end();
  }
  PoolArea area_of(SegmentKind kind) const { return area_of_kind_[static_cast<std::size_t>(kind)]; }
  std::uint32_t cap(PoolArea area) const { return areas_[index_of(area)].cap; }  // with what it borrowed
  std::uint32_t used(PoolArea area) const { return areas_[index_of(area)].used; }
  struct Held {
    std::uint32_t blocks = 0, pages = 0;
    bool operator==(const Held&) const = default;
  };
  Held held(SegmentKind kind) const { return held_[static_cast<std::size_t>(kind)]; }  // in any state
  std::uint32_t evictable(PoolArea area) const {
    return areas_[index_of(area)].evictable;
  }  // pages, of `used`
  // Pages that a reservation in this area could take without evicting anything.
  std::uint32_t room(PoolArea area) const;
  std::uint64_t pages_for(std::uint32_t tokens) const;

  // Empty if all is well, else what is wrong: every page is free or in exactly one block, all counts agree.
  std::string check_invariants() const;

 private:
  struct Entry;
  using Owners = std::unordered_map<std::string, Entry*>;  // owner → the newest of its blocks
  struct Entry : PoolBlock {
    Entry *older = nullptr, *newer = nullptr;    // in order of use, while evictable
    Entry *previous = nullptr, *next = nullptr;  // of the owner, newest first, while found by name
    Owners::value_type* owned = nullptr;
    std::uint64_t last_use = 0;  // uses of all blocks are numbered
    bool held = false;           // by `hold`
  };
  struct Order {
    Entry *least_recent = nullptr, *most_recent = nullptr;
  };
  struct Area {
    std::uint32_t cap = 0, least = 0, used = 0, evictable = 0;  // pages
    Order own, copies;                                          // blocks that rest
    std::uint32_t above() const { return used > cap ? used - cap : 0; }
  };

  static Entry& entry(const PoolBlock& block);
  Owners& owners(const PoolBlock& block) { return owners_[static_cast<std::size_t>(block.kind)]; }
  Area& area(const PoolBlock& block) { return areas_[index_of(area_of(block.kind))]; }
  Order& order(const PoolBlock& block) { return block.is_copy() ? area(block).copies : area(block).own; }
  static bool rests(const PoolBlock& block);  // nobody uses it: it has a place in the order of use
  static bool may_evict(const Entry& block) { return rests(block) && !block.held; }
  static Entry* first_evictable(Entry* block);
  Entry* find_named(const BlockName& name) const;
  Entry* find_held(const BlockName& name, std::uint64_t generation);
  Entry* find_unfinished(const BlockName& name, std::uint64_t generation);
  bool fits(PoolArea area, std::uint64_t need) const;
  double worth(const Entry& block, double copy_worth) const;
  std::optional<std::vector<Entry*>> find_room(PoolArea mine, std::uint64_t need, double copy_worth) const;
  void borrow(PoolArea mine, std::uint32_t cap);
  const PoolBlock* take_pages(const Want& want, std::uint32_t need);
  void make_room(PoolArea area, std::uint32_t need, std::span<const BlockName> evict_first);
  void evict(Entry& block);
  void evict_oldest(Area& area);
  void start_resting(Entry& block);
  void append(Entry& block);
  void stop_resting(Entry& block);
  void own(Entry& block);
  void disown(Entry& block);
  void forget_name(Entry& block, bool evicted);
  void give_back(Entry& block);  // destroys it
  void give_back_pages(Entry& block);
  std::string check_blocks() const;
  std::string check_areas() const;

  PagePoolSizes sizes_;
  std::vector<std::uint32_t> free_;  // taken from the back
  std::vector<bool> lent_;           // per page; none without the row area
  std::vector<Area> areas_;
  std::vector<PoolArea> area_of_kind_;
  std::array<Held, 6> held_{};             // by kind
  std::map<std::uint64_t, Entry> blocks_;  // by generation; removed ones too, while held
  // Hash tables are looked up only, never walked.
  boost::unordered_flat_map<BlockName, Entry*, BlockNameHash> by_name_;
  std::vector<Owners> owners_;  // by kind
  std::vector<BlockGone> gone_;
  std::uint64_t last_generation_;
  std::uint64_t uses_ = 0;
};

}  // namespace troupe
