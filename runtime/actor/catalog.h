#pragma once
// The catalog of items as a request sees it: an immutable snapshot in which items are numbers. A
// holder of a snapshot sees the catalog as it was, whatever is written meanwhile (promise 4). An
// answer therefore carries numbers and the snapshot, and copies nothing of the items. Only the HTTP
// server uses ids: they become numbers when features are found, and numbers become ids and titles
// when the reply is written.
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

// Dense number of an item. An item keeps its number in all snapshots of one process until it is
// deleted; after that the number may be reused for another item.
using ItemNumber = std::uint32_t;
inline constexpr ItemNumber no_item = UINT32_MAX;
// Identifier of an item of a model that reads none.
inline constexpr Token no_identifier = -1;

struct Item {
  std::string id, title;
  std::vector<Token> tokens;
  Token identifier = no_identifier;
  BlockName block;  // name of its prefix block under the loaded model; in router/precompute, of any kind
  bool operator==(const Item&) const = default;
};

// View of an item. Valid as long as the snapshot, or the Item, that it views.
struct ItemView {
  std::string_view id, title;
  std::span<const Token> tokens;
  Token identifier = no_identifier;
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

// Index of the identifiers of a catalog's items, built once for all snapshots that have the same
// identifiers under the same numbers. Thread-safe: a caller waits while another one builds it.
class CatalogPaths {
 public:
  std::shared_ptr<const kernels::PathIndex> of(const Catalog& catalog);
  bool made() const { return std::atomic_load(&paths_) != nullptr; }
  void release() { std::atomic_store(&paths_, {}); }  // holders keep theirs

 private:
  std::mutex building_;
  std::shared_ptr<const kernels::PathIndex> paths_;
};

class Catalog {
 public:
  Catalog() : paths_(std::make_shared<CatalogPaths>()) {}
  Catalog(const Catalog&) = default;  // shares the paths
  Catalog& operator=(const Catalog&) = delete;
  virtual ~Catalog() = default;
  virtual const std::string& version() const = 0;
  virtual ItemNumber find(std::string_view id) const = 0;  // no_item if there is none
  virtual ItemView item(ItemNumber number) const = 0;      // the number must be of this snapshot
  virtual ItemNumber next(ItemNumber from) const = 0;      // first item with this number or a higher one

  // Returns the result of `find` for each id.
  virtual std::vector<ItemNumber> find_all(std::span<const std::string> ids) const {
    std::vector<ItemNumber> numbers;
    numbers.reserve(ids.size());
    for (const std::string& id : ids) numbers.push_back(find(id));
    return numbers;
  }

  // Returns the identifiers that a beam search may produce: an item's tokens are its path, and its
  // number is that of the path's item. The first call builds the index, which takes about half a
  // second for a million items. A write that changes no path keeps it.
  std::shared_ptr<const kernels::PathIndex> paths() const { return paths_->of(*this); }
  bool has_paths() const { return paths_->made(); }
  bool shares_paths(const Catalog& other) const { return paths_ == other.paths_; }
  void release_paths() const { paths_->release(); }  // the next call of paths() builds them again

 protected:
  // Gives a copy its own paths, apart from those of the catalog that it was copied from.
  void forget_paths() { paths_ = std::make_shared<CatalogPaths>(); }

 private:
  std::shared_ptr<CatalogPaths> paths_;
};
using CatalogPointer = std::shared_ptr<const Catalog>;

}  // namespace troupe
