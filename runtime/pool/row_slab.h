#pragma once
// Decides which rows of embedding tables are cached, and in which pages. The pages come one by one
// from the free list of the node's page pool and return to it. The slab has no bytes, threads or
// clock, so the same calls always give the same answers. Its holder copies rows into pages and
// never moves one: a pool boundary moves by page numbers alone.
//
// A row's life is: absent → filling → ready → evicted, dropped or discarded. `look_up` holds the
// rows it returns until `release`, so no row is replaced and no page freed under a reader or
// writer. A missed row replaces the least recently used one; a use lasts until its release.
#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace troupe {

struct RowLocation {
  std::uint32_t page = 0;  // page number in the pool
  std::uint32_t slot = 0;  // in the page, from 0
  bool operator==(const RowLocation&) const = default;
};

enum class RowState : std::uint8_t {
  ready,  // its bytes are in its slot
  fill,   // the caller writes its bytes into the slot before the release
  absent  // no slot is free now, or another caller fills it: fetch it without caching
};

class RowSlab {
 public:
  // `page_rows`: rows in a page, at least 1. `evicted_max`: number of evicted rows remembered for
  // `refill`.
  explicit RowSlab(std::uint32_t page_rows, std::size_t evicted_max = 0);
  RowSlab(const RowSlab&) = delete;
  RowSlab& operator=(const RowSlab&) = delete;

  struct Row {
    std::uint32_t row = 0;
    RowState state = RowState::absent;
    RowLocation place;         // unset if absent
    std::uint32_t handle = 0;  // internal to the slab
  };
  struct Batch {
    std::uint32_t table = 0;
    std::vector<Row> rows;             // each once, in order of first mention
    std::vector<std::uint32_t> index;  // for each requested row: its index in `rows`
  };
  // Holds the rows it returns until `release`. The holder numbers the tables: one number per table
  // and model version, not reused while rows of it may be held.
  Batch look_up(std::uint32_t table, std::span<const std::uint32_t> rows);
  // Ends the hold. `filled`: the rows in state `fill` now have their bytes; otherwise they are
  // absent again.
  void release(const Batch& batch, bool filled = true);
  // Undoes the hit and miss counts of a lookup that will be repeated.
  void undo_counts(const Batch& batch);
  // Removes a held, ready row whose bytes are wrong, so that no lookup finds it.
  void discard(const Row& held);
  // Removes all rows of this table, whose model is no longer served.
  void drop(std::uint32_t table);

  // Returns evicted rows, the most recent first, for the caller to fill. They are all of one table,
  // at most `most`, and at most as many as there are empty slots. Nothing is evicted for them.
  Batch refill(std::size_t most);
  bool wants_refill() const { return empty_.size > 0 && !evicted_.empty(); }

  // Adds an empty page from the pool's free list.
  void grow(std::uint32_t page);
  // Frees `pages` pages, or fewer where rows are held. Chooses those with most rows among the least
  // recently used ones, and evicts their rows.
  std::vector<std::uint32_t> shrink(std::size_t pages);

  struct Counts {                        // since the start
    std::uint64_t hits = 0, misses = 0;  // distinct rows of each lookup, ready or not
    std::uint64_t repeats = 0;           // requested again within a lookup
    std::uint64_t refilled = 0, evicted = 0, dropped = 0, discarded = 0;
  };
  const Counts& counts() const { return counts_; }
  std::uint32_t page_rows() const { return page_rows_; }
  std::size_t pages() const { return pages_.size() - free_pages_.size(); }
  std::size_t handles() const { return slots_.size(); }  // every handle is below this
  std::size_t slot_count() const { return pages() * page_rows_; }
  std::size_t rows() const { return index_.size(); }  // in the index: ready or being filled

  // Returns "" if the state is consistent; otherwise says what is wrong.
  std::string check_invariants() const;

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  using Key = std::uint64_t;  // table, row
  struct Slot {
    Key key = 0;
    std::uint32_t older = none, newer = none;  // in the order of use, or in the list of empty slots
    std::uint32_t holds = 0;
    bool filling = false, found = false;  // both false and no hold: the slot is empty
  };
  struct List {
    std::uint32_t first = none, last = none;
    std::size_t size = 0;
  };
  struct Page {
    std::uint32_t number = 0;
    bool here = false;
    std::uint32_t held = 0;  // number of its held rows
  };

  static Key key_of(std::uint32_t table, std::uint32_t row) { return Key{table} << 32 | row; }
  RowLocation location_of(std::uint32_t slot) const {
    return {pages_[slot / page_rows_].number, slot % page_rows_};
  }
  void append(List& list, std::uint32_t slot);
  void remove(List& list, std::uint32_t slot);
  Row hold_ready(std::uint32_t row, std::uint32_t slot);
  Row hold_empty(std::uint32_t table, std::uint32_t row);
  bool ensure_empty_slot();
  void evict(std::uint32_t slot);
  void unindex(std::uint32_t slot);
  void end_hold(std::uint32_t slot);
  std::vector<std::uint32_t> pages_to_give(std::size_t count) const;
  void free_page(std::uint32_t page);
  std::string check_slot(std::uint32_t slot) const;

  std::uint32_t page_rows_;
  std::size_t evicted_max_;
  std::vector<Slot> slots_;  // page by page
  std::vector<Page> pages_;
  std::vector<std::uint32_t> free_pages_;  // positions in pages_ without a page
  List used_, empty_;                      // unheld ready rows, least recently used first; and empty slots
  // Only looked up, never iterated, so that runs are deterministic.
  boost::unordered_flat_map<Key, std::uint32_t> index_;
  boost::unordered_flat_map<std::uint32_t, std::uint32_t> lookup_index_;  // rows of the current lookup
  std::deque<Key> evicted_;                                               // oldest first
  Counts counts_;
};

}  // namespace troupe
