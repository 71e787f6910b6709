#pragma once
// Decides which block owns which page of one node's arena. The KV-cache worker's core holds the one
// PagePool of its node. The pool has no bytes, threads or clock, so the same calls always give the
// same answers. All areas (item blocks, user blocks and, on some nodes, rows; see pool_areas.h)
// share one range of pages. Their sizes are only accounting: moving a boundary copies nothing. An
// area above its size gives up pages when the next reservation needs them. The allocator agent sets
// the boundaries: how many pages each area has, and how many of them no other area may borrow.
// `reserve_anywhere` borrows within that limit.
//
// A block's life is: reserve → writing or loading → commit → ready → evicted or removed. Every
// reservation has its own generation, so late messages about an older one are recognised and
// ignored.
//
// The pool finds blocks by `==` of names, as containers do. A test build (tests/sim/mutants) compares
// only a part of the name. A caller checks `identical`
// (runtime/actor/identity.h) before it uses a block, and does not reserve a name that finds another
// block.
//
// Pages of the row area are taken with `lend` by the holder of the rows of embedding tables
// (row_slab.h). They belong to no block until that holder calls `return_pages`.
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
  std::uint64_t checksum = 0;  // over the bytes, once ready
  NodeId copy_of = 0;          // node that has it too, so it is worth less here; 0 = not a copy
  bool checked = false;        // ready: its bytes were compared with the checksum since they arrived here
  // No longer found by name; its pages are freed when the last reader or writer releases them.
  bool removed = false;

  bool is_copy() const { return copy_of != 0; }
};

// Describes a ready block that can no longer be found. Cache-meta, which keeps the index of blocks,
// must be informed.
struct RemovedBlock {
  BlockName name;
  SegmentKind kind = SegmentKind::item;
  std::string owner;
  std::uint32_t tokens = 0;
  std::uint64_t generation = 0;
  bool evicted = false;  // true: to free pages; false: `remove` was called
};

struct PagePoolSizes {
  struct Area {
    KindSet kinds = 0;  // every kind belongs to one area; 0 = the area has no blocks
    AreaSplit split;
  };
  std::uint32_t pages = 0;        // pages of the arena: the hard cap
  std::uint32_t page_tokens = 0;  // at least 1
  std::vector<Area> areas;        // their pages sum to at most `pages`
};
// Returns sizes for the first areas of the table, one for each entry of `area_pages`.
PagePoolSizes pool_sizes(std::uint32_t pages, std::uint32_t page_tokens,
                         std::span<const std::uint32_t> area_pages);
inline PagePoolSizes pool_sizes(std::uint32_t pages, std::uint32_t page_tokens,
                                std::initializer_list<std::uint32_t> area_pages) {
  return pool_sizes(pages, page_tokens, std::span(area_pages.begin(), area_pages.size()));
}
// Puts the blocks of the area `from` into `into`. The pages of `from` then have no blocks.
void merge_area(PagePoolSizes& sizes, PoolArea from, PoolArea into);

// Manages pages and blocks. Pointers to blocks stay valid until the block's pages are freed.
// Finding, pinning and unpinning are O(1); adding or removing a block costs O(log blocks) plus its
// pages. A node has tens of thousands of blocks and a request touches about a hundred, so the
// number of memory accesses per block matters.
class PagePool {
 public:
  // Generations start at `first_generation`, which is at least 1. An owner passes its incarnation,
  // so that generations of earlier processes are recognised too.
  explicit PagePool(const PagePoolSizes& sizes, std::uint64_t first_generation = 1);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Returns null if there is no such block. The block may be in any state.
  const PoolBlock* find(const BlockName& name) const;
  // Prefetches the entry, which a pin or unpin will touch soon, while other names are looked up.
  void prefetch(const PoolBlock& found) const;
  // Prefetches the list neighbours; call it once the entry itself has arrived in the cache.
  void prefetch_neighbours(const PoolBlock& found) const;

  struct Want {
    BlockName name;  // not in the pool now
    SegmentKind kind = SegmentKind::item;
    std::string owner;
    std::uint32_t tokens = 0;
    bool loading = false;  // from the persistent tier, instead of being computed
    NodeId copy_of = 0;    // node that has it and keeps it; 0 = none
  };
  // Reserves pages by evicting ready, unpinned blocks of the same area. The order is: blocks of
  // `evict_first` in the given order, then copies, then the others, each least recently used first.
  // A use lasts until its pin ends. Blocks of other areas are evicted only as far as those areas
  // are above their caps. Returns null, with nothing evicted, if that is not enough or `tokens` is
  // 0. The new block is held until commit or abandon.
  const PoolBlock* reserve(const Want& want, std::span<const BlockName> evict_first = {});

  // Result of planning a reservation that may take pages of all areas: of another area only those
  // above its minimum (AreaSplit::least). The block of least worth is displaced first. Worth is 1 /
  // (uses of all blocks since its own last use), times `copy_worth` (0 to 1) for a copy.
  struct EvictionPlan {
    bool possible = false;                    // false: pinned or unfinished blocks take the pages
    std::vector<const PoolBlock*> displaced;  // in order of eviction; empty if enough pages are free
  };
  EvictionPlan plan_eviction(SegmentKind kind, std::uint32_t tokens, double copy_worth) const;
  // Reserves by evicting what plan_eviction names; the area borrows from the others what the block
  // needs beyond its own pages. Returns null, with nothing changed, if that is impossible.
  const PoolBlock* reserve_anywhere(const Want& want, double copy_worth);

  // Called by the writer. Returns false if the generation is stale or the block was removed
  // meanwhile (then its pages are freed now). `checked`: the bytes were compared with the checksum
  // in place.
  bool commit(const BlockName& name, std::uint64_t generation, std::uint64_t checksum, bool checked = false);
  bool abandon(const BlockName& name, std::uint64_t generation);

  // A pin keeps a ready block and its pages. Callers pass the block that they found or pinned by
  // reference, so no table is searched again.
  void pin(const PoolBlock& found);
  void unpin(const PoolBlock& pinned);
  // Makes the block the most recently used of its area, though it was not used.
  void defer_eviction(const PoolBlock& found);
  void keep(const PoolBlock& found);    // it is no longer a copy
  void promote_copies_of(NodeId node);  // `node` has lost them, so they are no longer copies
  void set_checked(const PoolBlock& found);
  // True if nobody uses or holds the block.
  static bool is_evictable(const PoolBlock& found) { return may_evict(entry(found)); }

  // Holds the pages for a reader that does not count as a use: they are not evicted meanwhile, and
  // the order of use stays. Returns null if no ready block has this generation, or it is already
  // held.
  const PoolBlock* hold(std::uint64_t generation);
  void release_hold(std::uint64_t generation);

  // Removes the name. Pages under a pin or a writer are freed when that ends. With a generation,
  // removes only that one. Returns false if there was nothing to remove.
  bool remove(const BlockName& name, std::optional<std::uint64_t> generation = {});

  // Returns the ready blocks evicted or removed since the last call, in order.
  std::vector<RemovedBlock> take_removed();

  // Returns names of the owner's blocks in any state, oldest reservation first.
  std::vector<BlockName> names_of(SegmentKind kind, const std::string& owner) const;
  // Returns the first `count` ready blocks above this generation, in order of generation. An empty
  // index learns the inventory in such parts.
  std::vector<const PoolBlock*> ready_after(std::uint64_t generation, std::size_t count) const;
  std::vector<const PoolBlock*> last_used(SegmentKind kind) const;  // ready blocks, most recently used first
  std::uint64_t last_generation() const { return last_generation_; }

  // Lends at most `most` pages for rows, within the row area's cap. Takes free pages first, then
  // those of blocks in areas above their caps.
  std::vector<std::uint32_t> lend(std::uint32_t most);
  void return_pages(std::span<const std::uint32_t> pages);  // returns lent pages
  // Maps each ready block's generation to a hash over its page numbers, so that moves can be
  // counted.
  using PageHashes = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  PageHashes page_hashes() const;
  // Counts pages of blocks that existed then, still exist, and lie elsewhere.
  std::uint64_t pages_moved_since(const PageHashes& then) const;

  // Sets one split for each area; together they have at most the arena's pages. Borrowed pages
  // return to their areas. Nothing is evicted now.
  void set_split(std::span<const AreaSplit> split);

  std::uint32_t pages() const { return sizes_.pages; }
  std::uint32_t page_tokens() const { return sizes_.page_tokens; }
  std::uint32_t free_pages() const { return static_cast<std::uint32_t>(free_.size()); }
  std::size_t areas() const { return areas_.size(); }
  // True if the pool has the row area and no kind of block is assigned to it.
  bool has_rows() const {
    return areas_.size() > index_of(PoolArea::row) &&
           std::ranges::find(area_of_kind_, PoolArea::row) == area_of_kind_.end();
  }
  PoolArea area_of(SegmentKind kind) const { return area_of_kind_[static_cast<std::size_t>(kind)]; }
  // Returns the cap including borrowed pages.
  std::uint32_t cap(PoolArea area) const { return areas_[index_of(area)].cap; }
  std::uint32_t used(PoolArea area) const { return areas_[index_of(area)].used; }
  struct KindUsage {
    std::uint32_t blocks = 0, pages = 0;
    bool operator==(const KindUsage&) const = default;
  };
  KindUsage held(SegmentKind kind) const { return usage_[static_cast<std::size_t>(kind)]; }  // in any state
  std::uint32_t evictable(PoolArea area) const {
    return areas_[index_of(area)].evictable;
  }  // pages, part of `used`
  // Returns the pages that a reservation in this area could take without evicting anything.
  std::uint32_t pages_available(PoolArea area) const;
  std::uint64_t pages_for(std::uint32_t tokens) const;

  // Returns "" if every page is free, lent or in exactly one block and all counts agree; otherwise
  // says what is wrong.
  std::string check_invariants() const;

 private:
  struct Entry;
  using Owners = std::unordered_map<std::string, Entry*>;  // owner → newest of its blocks
  struct Entry : PoolBlock {
    Entry *older = nullptr, *newer = nullptr;  // in order of use, while evictable
    Entry *previous = nullptr,
          *next = nullptr;  // among the owner's blocks, newest first, while found by name
    Owners::value_type* owned = nullptr;
    std::uint64_t last_use = 0;  // uses of all blocks are numbered together
    bool held = false;           // by `hold`
  };
  struct Order {
    Entry *least_recent = nullptr, *most_recent = nullptr;
  };
  struct Area {
    // In pages. `least`: minimum that other areas cannot borrow.
    std::uint32_t cap = 0, least = 0, used = 0, evictable = 0;
    Order own, copies;  // blocks in the order of use
    std::uint32_t above() const { return used > cap ? used - cap : 0; }
  };

  static Entry& entry(const PoolBlock& block);
  Owners& owners(const PoolBlock& block) { return owners_[static_cast<std::size_t>(block.kind)]; }
  Area& area(const PoolBlock& block) { return areas_[index_of(area_of(block.kind))]; }
  Order& order(const PoolBlock& block) { return block.is_copy() ? area(block).copies : area(block).own; }
  static bool is_unused(const PoolBlock& block);  // nobody uses it: it is in the order of use
  static bool may_evict(const Entry& block) { return is_unused(block) && !block.held; }
  static Entry* first_evictable(Entry* block);
  Entry* find_named(const BlockName& name) const;
  Entry* find_held(const BlockName& name, std::uint64_t generation);
  Entry* find_unfinished(const BlockName& name, std::uint64_t generation);
  bool fits(PoolArea area, std::uint64_t need) const;
  double worth(const Entry& block, double copy_worth) const;
  std::optional<std::vector<Entry*>> find_displaced(PoolArea mine, std::uint64_t need,
                                                    double copy_worth) const;
  void borrow(PoolArea mine, std::uint32_t cap);
  const PoolBlock* take_pages(const Want& want, std::uint32_t need);
  void evict_for(PoolArea area, std::uint32_t need, std::span<const BlockName> evict_first);
  void evict(Entry& block);
  void evict_oldest(Area& area);
  void mark_unused(Entry& block);
  void append(Entry& block);
  void mark_used(Entry& block);
  void own(Entry& block);
  void disown(Entry& block);
  void forget_name(Entry& block, bool evicted);
  void give_back(Entry& block);  // frees its pages and destroys it
  void give_back_pages(Entry& block);
  std::string check_blocks() const;
  std::string check_areas() const;

  PagePoolSizes sizes_;
  std::vector<std::uint32_t> free_;  // taken from the back
  std::vector<bool> lent_;           // per page; empty without the row area
  std::vector<Area> areas_;
  std::vector<PoolArea> area_of_kind_;
  std::array<KindUsage, 6> usage_{};       // by kind
  std::map<std::uint64_t, Entry> blocks_;  // by generation; includes removed ones while they are held
  // Hash tables are only looked up, never iterated, so that runs are deterministic.
  boost::unordered_flat_map<BlockName, Entry*, BlockNameHash> by_name_;
  std::vector<Owners> owners_;  // by kind
  std::vector<RemovedBlock> removed_blocks_;
  std::uint64_t last_generation_;
  std::uint64_t uses_ = 0;
};

}  // namespace troupe
