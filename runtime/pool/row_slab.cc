// Decides which rows of embedding tables are cached in pages lent by the page pool, and which row a
// new one replaces. Rows in use are held until they are released, so no reader sees a row change.
#include "runtime/pool/row_slab.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe {

RowSlab::RowSlab(std::uint32_t page_rows, std::size_t evicted_max)
    : page_rows_(page_rows), evicted_max_(evicted_max) {
  TROUPE_CHECK(page_rows > 0, "a page holds at least one row");
}

// ---- lookups ----

// Holds the rows that are ready before evicting for the missing ones, so that no lookup evicts its
// own rows.
RowSlab::Batch RowSlab::look_up(std::uint32_t table, std::span<const std::uint32_t> rows) {
  Batch batch{table, {}, {}};
  batch.index.reserve(rows.size());
  lookup_index_.clear();
  for (const std::uint32_t row : rows) {
    const auto [at, first] = lookup_index_.try_emplace(row, static_cast<std::uint32_t>(batch.rows.size()));
    batch.index.push_back(at->second);
    if (!first) {
      ++counts_.repeats;
      continue;
    }
    const auto found = index_.find(key_of(table, row));
    const bool ready = found != index_.end() && !slots_[found->second].filling;
    batch.rows.push_back(ready ? hold_ready(row, found->second) : Row{row, RowState::absent, {}, 0});
    ++(ready ? counts_.hits : counts_.misses);
  }
  for (Row& row : batch.rows)
    if (row.state == RowState::absent && !index_.contains(key_of(table, row.row)) && ensure_empty_slot())
      row = hold_empty(table, row.row);
  return batch;
}

void RowSlab::undo_counts(const Batch& batch) {
  for (const Row& row : batch.rows) --(row.state == RowState::ready ? counts_.hits : counts_.misses);
  counts_.repeats -= batch.index.size() - batch.rows.size();
}

RowSlab::Row RowSlab::hold_ready(std::uint32_t row, std::uint32_t slot) {
  if (slots_[slot].holds++ == 0) {
    remove(used_, slot);
    ++pages_[slot / page_rows_].held;
  }
  return {row, RowState::ready, location_of(slot), slot};
}

RowSlab::Row RowSlab::hold_empty(std::uint32_t table, std::uint32_t row) {
  const std::uint32_t slot = empty_.first;
  remove(empty_, slot);
  Slot& taken = slots_[slot];
  taken.key = key_of(table, row);
  taken.holds = 1;
  taken.filling = taken.found = true;
  ++pages_[slot / page_rows_].held;
  index_.emplace(taken.key, slot);
  return {row, RowState::fill, location_of(slot), slot};
}

bool RowSlab::ensure_empty_slot() {
  if (empty_.size == 0 && used_.size > 0) evict(used_.first);
  return empty_.size > 0;
}

void RowSlab::release(const Batch& batch, bool filled) {
  for (const Row& row : batch.rows) {
    if (row.state == RowState::absent) continue;
    Slot& slot = slots_[row.handle];
    TROUPE_CHECK(slot.holds > 0, "a released row was held");
    if (row.state == RowState::fill) {
      slot.filling = false;
      if (!filled && slot.found) unindex(row.handle);
    }
    end_hold(row.handle);
  }
}

void RowSlab::end_hold(std::uint32_t slot) {
  if (--slots_[slot].holds > 0) return;
  --pages_[slot / page_rows_].held;
  append(slots_[slot].found ? used_ : empty_, slot);
}

// The slot is empty once nobody holds it.
void RowSlab::unindex(std::uint32_t slot) {
  index_.erase(slots_[slot].key);
  slots_[slot].found = false;
  if (slots_[slot].holds > 0) return;
  remove(used_, slot);
  append(empty_, slot);
}

void RowSlab::discard(const Row& held) {
  TROUPE_CHECK(held.state == RowState::ready && slots_[held.handle].holds > 0,
               "a discarded row is ready and held");
  if (!slots_[held.handle].found) return;  // another reader has discarded it already
  unindex(held.handle);
  ++counts_.discarded;
}

void RowSlab::drop(std::uint32_t table) {
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].found || slots_[slot].key >> 32 != table) continue;
    unindex(slot);
    ++counts_.dropped;
  }
  std::erase_if(evicted_, [table](Key key) { return key >> 32 == table; });
}

void RowSlab::evict(std::uint32_t slot) {
  const Key key = slots_[slot].key;
  unindex(slot);
  ++counts_.evicted;
  if (evicted_max_ == 0) return;
  if (evicted_.size() == evicted_max_) evicted_.pop_front();
  evicted_.push_back(key);
}

RowSlab::Batch RowSlab::refill(std::size_t most) {
  Batch batch;
  while (batch.rows.size() < most && wants_refill()) {
    const Key key = evicted_.back();
    const auto table = static_cast<std::uint32_t>(key >> 32), row = static_cast<std::uint32_t>(key);
    if (!batch.rows.empty() && table != batch.table) break;
    evicted_.pop_back();
    if (index_.contains(key)) continue;
    batch.table = table;
    batch.index.push_back(static_cast<std::uint32_t>(batch.rows.size()));
    batch.rows.push_back(hold_empty(table, row));
    ++counts_.refilled;
  }
  return batch;
}

// ---- pages ----

void RowSlab::grow(std::uint32_t page) {
  std::uint32_t at = static_cast<std::uint32_t>(pages_.size());
  if (free_pages_.empty()) {
    pages_.emplace_back();
    slots_.resize(slots_.size() + page_rows_);
  } else {
    at = free_pages_.back();
    free_pages_.pop_back();
  }
  pages_[at] = {page, true, 0};
  for (std::uint32_t slot = at * page_rows_; slot < (at + 1) * page_rows_; ++slot) append(empty_, slot);
}

std::vector<std::uint32_t> RowSlab::shrink(std::size_t pages) {
  std::vector<std::uint32_t> given;
  for (const std::uint32_t page : pages_to_give(pages)) {
    given.push_back(pages_[page].number);
    free_page(page);
  }
  return given;
}

// Chooses the pages whose eviction costs the fewest rows outside the set of least recently used
// ones. The set has as many rows as the pages hold.
std::vector<std::uint32_t> RowSlab::pages_to_give(std::size_t count) const {
  std::vector<std::uint32_t> going(pages_.size(), 0), order;
  for (std::uint32_t page = 0; page < pages_.size(); ++page)
    if (pages_[page].here && pages_[page].held == 0) order.push_back(page);
  std::size_t marked = 0;
  const std::size_t enough = count * page_rows_;
  for (const List* list : {&empty_, &used_})
    for (std::uint32_t slot = list->first; slot != none && marked < enough;
         slot = slots_[slot].newer, ++marked)
      ++going[slot / page_rows_];
  const std::size_t given = std::min(order.size(), count);
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(given), [&](auto a, auto b) {
    return going[a] != going[b] ? going[a] > going[b] : a < b;
  });
  order.resize(given);
  return order;
}

void RowSlab::free_page(std::uint32_t page) {
  for (std::uint32_t slot = page * page_rows_; slot < (page + 1) * page_rows_; ++slot) {
    if (slots_[slot].found) evict(slot);
    remove(empty_, slot);
  }
  pages_[page].here = false;
  free_pages_.push_back(page);
}

// ---- lists ----

void RowSlab::append(List& list, std::uint32_t slot) {
  slots_[slot].older = list.last;
  slots_[slot].newer = none;
  (list.last == none ? list.first : slots_[list.last].newer) = slot;
  list.last = slot;
  ++list.size;
}

void RowSlab::remove(List& list, std::uint32_t slot) {
  const Slot& gone = slots_[slot];
  (gone.older == none ? list.first : slots_[gone.older].newer) = gone.newer;
  (gone.newer == none ? list.last : slots_[gone.newer].older) = gone.older;
  --list.size;
}

// ---- invariants ----

std::string RowSlab::check_slot(std::uint32_t at) const {
  const Slot& slot = slots_[at];
  if (!pages_[at / page_rows_].here)
    return slot.found || slot.holds > 0 ? "a freed page still has a row" : "";
  if (slot.filling && slot.holds == 0) return "a row that is being filled is not held";
  if (!slot.found) return "";
  const auto found = index_.find(slot.key);
  return found != index_.end() && found->second == at ? "" : "the index does not map a row to its slot";
}

std::string RowSlab::check_invariants() const {
  std::vector<std::uint8_t> listed(slots_.size(), 0);
  for (const List* list : {&used_, &empty_}) {
    std::uint32_t older = none;
    std::size_t size = 0;
    for (std::uint32_t slot = list->first; slot != none; older = slot, slot = slots_[slot].newer, ++size) {
      if (listed[slot]++ != 0 || slots_[slot].older != older) return "the order of use is torn";
      if (slots_[slot].holds > 0 || slots_[slot].found != (list == &used_))
        return "a row is in the wrong list";
    }
    if (size != list->size || older != list->last) return "a list's length or last element is wrong";
  }
  std::size_t found = 0, unheld = 0;
  std::vector<std::uint32_t> held(pages_.size(), 0);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (std::string fault = check_slot(slot); !fault.empty()) return fault;
    found += slots_[slot].found;
    held[slot / page_rows_] += slots_[slot].holds > 0;
    unheld += pages_[slot / page_rows_].here && slots_[slot].holds == 0;
  }
  for (std::uint32_t page = 0; page < pages_.size(); ++page)
    if (held[page] != pages_[page].held) return "held rows disagree";
  if (found != index_.size()) return "rows and their index disagree in number";
  if (unheld != used_.size + empty_.size) return "a slot is in no list";
  return evicted_.size() <= evicted_max_ ? "" : "more evicted rows are remembered than evicted_max";
}

}  // namespace troupe
