// Builds immutable snapshots of the catalog of items that share most of their memory, and one index
// from item ids to numbers. A write of one item thus costs microseconds, and requests keep reading
// the snapshot they began with.
#include "runtime/features/stored_catalog.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <utility>

#include "kernels/base/check.h"

namespace troupe {

std::string catalog_version_text(std::uint64_t version) { return "c" + std::to_string(version); }

// ---- index ----

// Hash table with open addressing. A slot has the id's hash and the number plus 1. It is valid for
// the snapshots whose item of that number has that id, so nothing is ever removed and readers need
// no ordering among slots.
class CatalogIndex {
 public:
  explicit CatalogIndex(std::size_t items) : slots_(std::bit_ceil(std::max<std::size_t>(64, 3 * items))) {}

  static std::uint32_t hash_of(std::string_view id) {
    return static_cast<std::uint32_t>(std::hash<std::string_view>{}(id) >> 16);
  }
  bool has_capacity(std::size_t more) const { return 2 * (used_ + more) <= slots_.size(); }
  void add(std::string_view id, ItemNumber number) {
    const std::uint64_t entry = std::uint64_t{hash_of(id)} << 32 | (number + 1);
    std::size_t at = hash_of(id);
    for (std::uint64_t there = 0; (there = slot(at).load(std::memory_order_relaxed)) != 0; ++at)
      if (there == entry) return;
    slot(at).store(entry, std::memory_order_relaxed);
    ++used_;
  }
  void prefetch(std::uint32_t hash) const { __builtin_prefetch(&slot(hash)); }
  // Returns the first number of this hash for which `is_it` holds.
  template <class IsIt>
  ItemNumber find(std::uint32_t hash, IsIt is_it) const {
    std::uint64_t entry = 0;
    for (std::size_t at = hash; (entry = slot(at).load(std::memory_order_relaxed)) != 0; ++at)
      if (entry >> 32 == hash && is_it(static_cast<ItemNumber>(entry) - 1))
        return static_cast<ItemNumber>(entry) - 1;
    return no_item;
  }

 private:
  using Slot = std::atomic<std::uint64_t>;
  Slot& slot(std::size_t at) { return slots_[at & (slots_.size() - 1)]; }
  const Slot& slot(std::size_t at) const { return slots_[at & (slots_.size() - 1)]; }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;  // used by the writer only
};

// ---- snapshot ----

StoredCatalog::StoredCatalog()
    : version_text_(catalog_version_text(0)), index_(std::make_shared<CatalogIndex>(0)) {}

ItemView StoredCatalog::Leaf::item(const Row& row) const {
  return {id(row), std::string_view(text).substr(row.text + row.id_bytes, row.title_bytes),
          std::span(tokens).subspan(row.token, row.tokens), row.identifier, row.block};
}

void StoredCatalog::Leaf::add(const ItemView& item, std::uint64_t written) {
  const auto size = [](const auto& part) { return static_cast<std::uint32_t>(part.size()); };
  rows.push_back({written, size(text), size(item.id), size(item.title), size(tokens), size(item.tokens),
                  item.identifier, item.block});
  text.append(item.id).append(item.title);
  tokens.insert(tokens.end(), item.tokens.begin(), item.tokens.end());
}

const StoredCatalog::Leaf* StoredCatalog::leaf_of(ItemNumber number) const {
  if (number >= numbers_) return nullptr;
  const std::uint32_t leaf = number / leaf_rows;
  return (*branches_[leaf / branch_leaves])[leaf % branch_leaves].get();
}

const StoredCatalog::Row* StoredCatalog::row_of(ItemNumber number) const {
  const Leaf* leaf = leaf_of(number);
  if (!leaf) return nullptr;
  const Row& row = leaf->rows[number % leaf_rows];
  return row.id_bytes > 0 ? &row : nullptr;
}

ItemNumber StoredCatalog::find(std::string_view id, std::uint32_t hash) const {
  return index_->find(hash, [&](ItemNumber number) {
    const Row* row = row_of(number);
    return row && leaf_of(number)->id(*row) == id;
  });
}

ItemNumber StoredCatalog::find(std::string_view id) const { return find(id, CatalogIndex::hash_of(id)); }

// Prefetches slots, rows and texts of all ids before it compares any. Usually the first item with an id's
// hash has that id.
std::vector<ItemNumber> StoredCatalog::find_all(std::span<const std::string> ids) const {
  std::vector<std::uint32_t> hashes(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) index_->prefetch(hashes[i] = CatalogIndex::hash_of(ids[i]));
  for (const std::uint32_t hash : hashes)
    index_->find(hash, [&](ItemNumber number) {
      if (const Leaf* leaf = leaf_of(number)) __builtin_prefetch(&leaf->rows[number % leaf_rows]);
      return true;
    });
  for (const std::uint32_t hash : hashes)
    index_->find(hash, [&](ItemNumber number) {
      if (const Row* row = row_of(number)) __builtin_prefetch(leaf_of(number)->id(*row).data());
      return true;
    });
  std::vector<ItemNumber> numbers(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) numbers[i] = find(ids[i], hashes[i]);
  return numbers;
}

ItemView StoredCatalog::item(ItemNumber number) const {
  const Row* row = row_of(number);
  TROUPE_CHECK(row, "the snapshot has an item of this number");
  return leaf_of(number)->item(*row);
}

ItemNumber StoredCatalog::next(ItemNumber from) const {
  while (from < numbers_ && !row_of(from)) ++from;
  return from < numbers_ ? from : no_item;
}

std::uint64_t StoredCatalog::written(ItemNumber number) const {
  const Row* row = row_of(number);
  TROUPE_CHECK(row, "the snapshot has an item of this number");
  return row->written;
}

// ---- writer ----

CatalogWriter::CatalogWriter(StoredCatalogPointer base)
    : base_(std::move(base)), numbers_(base_->numbers_), size_(base_->size_) {}

ItemNumber CatalogWriter::find(std::string_view id) const {
  if (const auto at = added_.find(std::string(id)); at != added_.end()) return at->second;
  const ItemNumber number = base_->find(id);
  const auto change = changes_.find(number);
  if (change == changes_.end()) return number;
  return change->second.item && change->second.item->id == id ? number : no_item;
}

void CatalogWriter::put(Item item, std::uint64_t written) {
  TROUPE_CHECK(!item.id.empty(), "an item has an id");
  ItemNumber number = find(item.id);
  if (number == no_item) {
    if (free_.empty()) {
      number = numbers_++;
    } else {
      number = free_.back();
      free_.pop_back();
    }
    added_[item.id] = number;
    ++size_;
  }
  changes_[number] = {std::move(item), written};
}

bool CatalogWriter::erase(std::string_view id) {
  const ItemNumber number = find(id);
  if (number == no_item) return false;
  added_.erase(std::string(id));
  changes_[number] = {};
  free_.push_back(number);
  --size_;
  return true;
}

StoredCatalogPointer CatalogWriter::publish(std::uint64_t version) {
  auto next = std::make_shared<StoredCatalog>(*base_);
  next->version_ = version;
  next->version_text_ = catalog_version_text(version);
  next->size_ = size_;
  next->numbers_ = numbers_;
  if (changes_paths()) next->forget_paths();
  build_leaves(*next);
  index_changes(*next);
  changes_.clear();
  added_.clear();
  return base_ = std::move(next);
}

bool CatalogWriter::changes_paths() const {
  return std::ranges::any_of(changes_, [&](const auto& change) {
    const auto* row = base_->row_of(change.first);
    const std::optional<Item>& item = change.second.item;
    if (!row || !item) return row || item;
    const std::span<const Token> before = base_->leaf_of(change.first)->item(*row).tokens;
    return !std::ranges::equal(before, item->tokens);
  });
}

void CatalogWriter::build_leaves(StoredCatalog& next) {
  constexpr std::uint32_t branch_rows = StoredCatalog::leaf_rows * StoredCatalog::branch_leaves;
  for (auto from = changes_.cbegin(); from != changes_.cend();) {
    const std::uint32_t branch = from->first / branch_rows;
    const auto branch_end = changes_.lower_bound((branch + 1) * branch_rows);
    if (next.branches_.size() <= branch) next.branches_.resize(branch + 1);
    auto leaves = next.branches_[branch]
                      ? std::make_shared<StoredCatalog::Branch>(*next.branches_[branch])
                      : std::make_shared<StoredCatalog::Branch>(StoredCatalog::branch_leaves);
    while (from != branch_end) {
      const ItemNumber first = from->first / StoredCatalog::leaf_rows * StoredCatalog::leaf_rows;
      const auto leaf_end = changes_.lower_bound(first + StoredCatalog::leaf_rows);
      StoredCatalog::LeafPointer& leaf = (*leaves)[first % branch_rows / StoredCatalog::leaf_rows];
      leaf = build_leaf(leaf.get(), first, from, leaf_end);
      ++leaves_copied_;
      from = leaf_end;
    }
    next.branches_[branch] = std::move(leaves);
  }
}

// Trims texts and tokens to their size.
StoredCatalog::LeafPointer CatalogWriter::build_leaf(const StoredCatalog::Leaf* before, ItemNumber first,
                                                     Changes::const_iterator from,
                                                     Changes::const_iterator to) const {
  StoredCatalog::Leaf leaf;
  leaf.rows.reserve(StoredCatalog::leaf_rows);
  for (std::uint32_t i = 0; i < StoredCatalog::leaf_rows; ++i) {
    const StoredCatalog::Row* row = before && before->rows[i].id_bytes > 0 ? &before->rows[i] : nullptr;
    if (from != to && from->first == first + i) {
      const Change& change = from++->second;
      change.item ? leaf.add(*change.item, change.written) : leaf.add({}, 0);
    } else {
      row ? leaf.add(before->item(*row), row->written) : leaf.add({}, 0);
    }
  }
  leaf.text.shrink_to_fit();
  leaf.tokens.shrink_to_fit();
  return std::make_shared<const StoredCatalog::Leaf>(std::move(leaf));
}

void CatalogWriter::index_changes(StoredCatalog& next) const {
  if (next.index_->has_capacity(added_.size())) {
    for (const auto& [id, number] : added_) next.index_->add(id, number);
    return;
  }
  next.index_ = std::make_shared<CatalogIndex>(next.size_);
  for (ItemNumber number = next.next(0); number != no_item; number = next.next(number + 1))
    next.index_->add(next.item(number).id, number);
}

}  // namespace troupe
