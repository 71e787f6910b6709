#pragma once
// The catalog of items as a request sees it: an immutable snapshot, in which items are numbers. Whoever holds
// a snapshot sees the catalog as it was, whatever is written meanwhile (promise 4), so an answer carries
// numbers and the snapshot, and nothing of the items is copied. Ids are for the door: they become numbers
// when features are found, and numbers become ids and titles when the reply is written.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::kernels {
class PathIndex;
}

namespace troupe {

// Dense. An item has the same number in all snapshots of one process from when it is put until it is deleted;
// after that the number may be another item's.
using ItemNumber = std::uint32_t;
inline constexpr ItemNumber no_item = UINT32_MAX;

struct Item {
  std::string id, title;
  std::vector<Token> tokens;
  Token identifier = -1;
  BlockName block;  // of its item-prefix block under the loaded model
  bool operator==(const Item&) const = default;
};

// An item where it lies: in a snapshot, and good as long as that; or in an Item.
struct ItemView {
  std::string_view id, title;
  std::span<const Token> tokens;
  Token identifier = -1;
  BlockName block;

  ItemView() = default;
  ItemView(std::string_view item_id, std::string_view item_title, std::span<const Token> item_tokens,
           Token item_identifier, const BlockName& item_block)
      : id(item_id), title(item_title), tokens(item_tokens), identifier(item_identifier), block(item_block) {}
  ItemView(const Item& item) : ItemView(item.id, item.title, item.tokens, item.identifier, item.block) {}
  Item copy() const {
    return {std::string(id), std::string(title), {tokens.begin(), tokens.end()}, identifier, block};
  }
};

inline std::vector<ItemView> views(std::span<const Item> items) { return {items.begin(), items.end()}; }

class Catalog;

// The identifiers of a catalog's items, made once for all snapshots that have the same ones under the same
// numbers. Thread-safe: whoever asks while they are made waits.
class CatalogPaths {
 public:
  std::shared_ptr<const kernels::PathIndex> of(const Catalog& catalog);
  bool made() const { return std::atomic_load(&paths_) != nullptr; }
  void release() { std::atomic_store(&paths_, {}); }  // whoever has them keeps them

 private:
  std::mutex making_;
  std::shared_ptr<const kernels::PathIndex> paths_;
};

class Catalog {
 public:
  Catalog() : paths_(std::make_shared<CatalogPaths>()) {}
  Catalog(const Catalog&) = default;  // of the same paths
  Catalog& operator=(const Catalog&) = delete;
  virtual ~Catalog() = default;
  virtual const std::string& version() const = 0;
  virtual ItemNumber find(std::string_view id) const = 0;  // no_item: there is none
  virtual ItemView item(ItemNumber number) const = 0;      // of an item of this snapshot
  virtual ItemNumber next(ItemNumber from) const = 0;      // the first item with this number or a higher one

  // As `find` of each.
  virtual std::vector<ItemNumber> find_all(std::span<const std::string> ids) const {
    std::vector<ItemNumber> numbers;
    numbers.reserve(ids.size());
    for (const std::string& id : ids) numbers.push_back(find(id));
    return numbers;
  }

  // What a beam search may return: an item's tokens are its path, its number that of a path's item. Made when
  // it is first asked for, which takes about half a second for a million items; a write that changes no path
  // keeps it.
  std::shared_ptr<const kernels::PathIndex> paths() const { return paths_->of(*this); }
  bool has_paths() const { return paths_->made(); }
  bool shares_paths(const Catalog& other) const { return paths_ == other.paths_; }
  void release_paths() const { paths_->release(); }  // they are made again when they are asked for next

 protected:
  // Of a copy that is to have other paths than what it was copied from.
  void forget_paths() { paths_ = std::make_shared<CatalogPaths>(); }

 private:
  std::shared_ptr<CatalogPaths> paths_;
};
using CatalogPointer = std::shared_ptr<const Catalog>;

}  // namespace troupe
