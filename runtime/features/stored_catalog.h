#pragma once
// Snapshots of a catalog stored elsewhere (RocksDB, Redis), and the writer that makes them.
// Snapshots share their common parts: a write copies one leaf of 32 items and the pointers to it,
// which takes a few microseconds at a million items. All snapshots share one index from ids to
// numbers. The index only grows, and each snapshot checks whether the number found has that id in
// it. When the index is half full, the writer builds a larger one; readers never wait.
//
// An item takes 64 bytes, plus its id, title and tokens, plus 16 to 32 bytes of index.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/actor/catalog.h"

namespace troupe {

std::string catalog_version_text(std::uint64_t version);  // such as "c7"

class CatalogIndex;

class StoredCatalog final : public Catalog {
 public:
  StoredCatalog();  // empty, version 0

  const std::string& version() const override { return version_text_; }
  ItemNumber find(std::string_view id) const override;
  std::vector<ItemNumber> find_all(std::span<const std::string> ids) const override;
  ItemView item(ItemNumber number) const override;
  ItemNumber next(ItemNumber from) const override;

  std::uint64_t size() const { return size_; }
  std::uint64_t version_number() const { return version_; }
  std::uint64_t written(ItemNumber number) const;  // version that wrote this item

 private:
  friend class CatalogWriter;
  struct Row {  // 64 bytes, so that an item is one cache line and its texts
    std::uint64_t written = 0;
    // In Leaf::text; an empty id: there is no such item.
    std::uint32_t text = 0, id_bytes = 0, title_bytes = 0;
    std::uint32_t token = 0, tokens = 0;  // in Leaf::tokens
    Token identifier = no_identifier;
    BlockName block;
  };
  struct Leaf {
    std::vector<Row> rows;
    std::string text;
    std::vector<Token> tokens;

    std::string_view id(const Row& row) const {
      return std::string_view(text).substr(row.text, row.id_bytes);
    }
    ItemView item(const Row& row) const;
    void add(const ItemView& item, std::uint64_t written);
  };
  using LeafPointer = std::shared_ptr<const Leaf>;
  using Branch = std::vector<LeafPointer>;
  static constexpr std::uint32_t leaf_rows = 32, branch_leaves = 128;

  ItemNumber find(std::string_view id, std::uint32_t hash) const;
  const Leaf* leaf_of(ItemNumber number) const;  // null: no number in it was ever used
  const Row* row_of(ItemNumber number) const;    // null: no item has this number

  std::uint64_t version_ = 0;
  std::string version_text_;
  std::uint64_t size_ = 0;
  ItemNumber numbers_ = 0;  // upper bound of the numbers
  std::vector<std::shared_ptr<const Branch>> branches_;
  std::shared_ptr<CatalogIndex> index_;
};
using StoredCatalogPointer = std::shared_ptr<const StoredCatalog>;

// Collects changes and publishes them as the next snapshot. All snapshots that descend from one
// have one writer at a time.
class CatalogWriter {
 public:
  explicit CatalogWriter(StoredCatalogPointer base = std::make_shared<const StoredCatalog>());

  // A later change of the same id wins.
  void put(Item item, std::uint64_t written);
  bool erase(std::string_view id);  // false: it was absent
  bool contains(std::string_view id) const { return find(id) != no_item; }
  std::uint64_t size() const { return size_; }             // with the changes so far
  std::size_t changes() const { return changes_.size(); }  // not published yet

  StoredCatalogPointer publish(std::uint64_t version);
  const StoredCatalogPointer& last() const { return base_; }    // published last
  std::size_t leaves_copied() const { return leaves_copied_; }  // in all publications

 private:
  struct Change {
    std::optional<Item> item;  // nullopt: erased
    std::uint64_t written = 0;
  };
  using Changes = std::map<ItemNumber, Change>;

  ItemNumber find(std::string_view id) const;
  void build_leaves(StoredCatalog& next);
  StoredCatalog::LeafPointer build_leaf(const StoredCatalog::Leaf* before, ItemNumber first,
                                        Changes::const_iterator from, Changes::const_iterator to) const;
  void index_changes(StoredCatalog& next) const;
  bool changes_paths() const;

  StoredCatalogPointer base_;
  Changes changes_;
  // Ids absent from `base_`, or with another number there.
  std::unordered_map<std::string, ItemNumber> added_;
  std::vector<ItemNumber> free_;  // below numbers_
  ItemNumber numbers_;
  std::uint64_t size_;
  std::size_t leaves_copied_ = 0;
};

}  // namespace troupe
