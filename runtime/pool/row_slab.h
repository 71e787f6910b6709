#pragma once
// Which rows of embedding tables are at hand, and where: in pages of the node's one pool, which come from its
// free list one by one and go back to it. The slab has no bytes, threads or clock, so the same calls always
// give the same answers; whoever holds it copies rows, and moves none: a boundary of the pool moves by these
// page numbers alone.
//
// A row goes: absent → filling → ready → evicted, dropped or discarded. `look_up` holds what it gives out
// until `release`, so no row is replaced, and no page given back, under somebody who reads or fills it. The
// row that was used least recently makes room for one that is missed; a use lasts until its release.
#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "runtime/actor/planted.h"

namespace troupe {

struct RowPlace {
  std::uint32_t page = 0;  // of the pool
  std::uint32_t slot = 0;  // in the page, from 0
  bool operator==(const RowPlace&) const = default;
};

enum class RowState : std::uint8_t {
  ready,  // its bytes are at its place
  fill,   // whoever asked brings its bytes there before the release
  absent  // there is no place for it now, or somebody else fills it: it is fetched, and not kept
};

class RowSlab {
 public:
  // `page_rows`: rows in a page, at least 1. `evicted_max`: of rows that went, the last ones are remembered
  // for `refill`.
  explicit RowSlab(std::uint32_t page_rows, std::size_t evicted_max = 0);
  RowSlab(const RowSlab&) = delete;
  RowSlab& operator=(const RowSlab&) = delete;

  struct Row {
    std::uint32_t row = 0;
    RowState state = RowState::absent;
    RowPlace place;            // unless it is absent
    std::uint32_t handle = 0;  // the slab's own
  };
  struct Batch {
    std::uint32_t table = 0;
    std::vector<Row> rows;             // each once, in order of first mention
    std::vector<std::uint32_t> index;  // of each row that was asked for: where it is in `rows`
  };
  // Numbers of tables are the holder's: one per table and model version, none used twice while rows of it may
  // be held.
  Batch look_up(std::uint32_t table, std::span<const std::uint32_t> rows);
  // Ends the hold. `filled`: the rows to be filled have their bytes; else they are absent again.
  void release(const Batch& batch, bool filled = true);
  // That lookup will be made again: what it counted is counted then.
  void take_back(const Batch& batch);
  // The bytes of a ready row that is held are not what they should be: nobody finds it any more.
  void discard(const Row& held);
  // No row of this table can be found from now on: its model is gone.
  void drop(std::uint32_t table);

  // Of the rows that went and are absent, the last ones, as many as there are empty places for and at most
  // `most`, all of one table: to be filled by whoever asks. Nothing is evicted for them.
  Batch refill(std::size_t most);
  bool wants_refill() const { return empty_.size > 0 && !evicted_.empty(); }

  // A page from the pool's free list, with no row in it.
  void grow(std::uint32_t page);
  // Gives up as many pages, fewer where held rows are in the way: those that have most rows among the least
  // recently used ones. Their rows are evicted.
  std::vector<std::uint32_t> shrink(std::size_t pages);

  struct Counts {                        // since the start
    std::uint64_t hits = 0, misses = 0;  // distinct rows of each lookup, ready or not
    std::uint64_t repeats = 0;           // asked for again within a lookup
    std::uint64_t refilled = 0, evicted = 0, dropped = 0, discarded = 0;
  };
  const Counts& counts() const { return counts_; }
  std::uint32_t page_rows() const { return page_rows_; }
  std::size_t pages() const { return pages_.size() - free_pages_.size(); }
  std::size_t handles() const { return slots_.size(); }  // those of rows are below
  std::size_t places() const { return pages() * page_rows_; }
  std::size_t rows() const { return index_.size(); }  // that are found: ready, or being filled

  // Empty if all is well, else what is wrong.
  std::string check_invariants() const;

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  using Key = std::uint64_t;  // table, row
  struct Slot {
    Key key = 0;
    std::uint32_t older = none, newer = none;  // in the order of use, or among the empty ones
    std::uint32_t holds = 0;
    bool filling = false, found = false;  // neither, and no hold: it is empty
  };
  struct List {
    std::uint32_t first = none, last = none;
    std::size_t size = 0;
  };
  struct Page {
    std::uint32_t number = 0;
    bool here = false;
    std::uint32_t held = 0;  // of its rows
  };

  static Key key_of(std::uint32_t table, std::uint32_t row) {
    return planted(Bug::mix_row_versions) ? row : Key{table} << 32 | row;
  }
  RowPlace place_of(std::uint32_t slot) const {
    return {pages_[slot / page_rows_].number, slot % page_rows_};
  }
  void append(List& list, std::uint32_t slot);
  void remove(List& list, std::uint32_t slot);
  Row hold_ready(std::uint32_t row, std::uint32_t slot);
  Row hold_empty(std::uint32_t table, std::uint32_t row);
  bool make_room();
  void evict(std::uint32_t slot);
  void lose(std::uint32_t slot);
  void let_go(std::uint32_t slot);
  std::vector<std::uint32_t> pages_to_give(std::size_t count) const;
  void give_page(std::uint32_t page);
  std::string check_slot(std::uint32_t slot) const;

  std::uint32_t page_rows_;
  std::size_t evicted_max_;
  std::vector<Slot> slots_;  // page by page
  std::vector<Page> pages_;
  std::vector<std::uint32_t> free_pages_;  // places in pages_ that have no page now
  List used_, empty_;  // ready ones that nobody holds, the least recently used first; and empty ones
  // Looked up only, never walked.
  boost::unordered_flat_map<Key, std::uint32_t> index_;
  boost::unordered_flat_map<std::uint32_t, std::uint32_t> asked_;  // of the lookup at hand
  std::deque<Key> evicted_;                                        // the last one behind
  Counts counts_;
};

}  // namespace troupe
