#pragma once
// A router's own copy of a catalog that lives elsewhere, in memory, each item with the name of its block. It
// follows the store from version to version and remembers for a while what each step replaced, so that a
// request can be answered from exactly the version that its profile was read at, although other lanes have
// moved on in between. Pure: nothing here talks to the store.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/ports.h"

namespace troupe {

struct MirroredItem {
  Item item;
  std::uint64_t version = 0;  // the catalog version that wrote it
};
using ItemPointer = std::shared_ptr<const MirroredItem>;

struct CatalogChange {
  std::string id;
  std::uint64_t version = 0;
  ItemPointer item;  // null: it is gone
};

// Equal versions mean equal contents only within one lineage: a store that came back from a restart may have
// lost its last writes, and one that was emptied starts again.
struct CatalogPosition {
  std::string run, origin;    // of the store's process, and of what it holds; "": nothing was seen yet
  std::uint64_t version = 0;  // 0 is the empty catalog
  bool same_lineage(const CatalogPosition& other) const { return run == other.run && origin == other.origin; }
  bool operator==(const CatalogPosition&) const = default;
};

// Thread-safe.
class CatalogMirror {
 public:
  // More than `items_max` items are left out and counted. `history_max`: items that steps replaced, in all.
  CatalogMirror(std::uint64_t items_max, std::size_t history_max)
      : items_max_(items_max), history_max_(history_max) {}

  CatalogPosition position() const;
  std::uint64_t items() const;
  std::uint64_t left_out() const;

  // A whole catalog, in order of version, an id at its last place. Nothing if this lineage is here already,
  // as new or newer.
  void replace(const CatalogPosition& to, std::span<const CatalogChange> all);
  // All changes in (from, to], in order of version. Nothing if they are here already, or if the mirror is in
  // another lineage or stands before `from`.
  void advance(const CatalogPosition& from, std::uint64_t to, std::span<const CatalogChange> changes);

  // The items as they stood at `at`, null where there was none; absent if that is not known (any more). The
  // mirror knows the positions at which it stood itself, and version 0 of every lineage.
  std::optional<std::vector<ItemPointer>> read(const CatalogPosition& at,
                                               std::span<const std::string> ids) const;
  ItemList list(const ListItems& wanted) const;  // of the present position

 private:
  struct Step {
    std::uint64_t from = 0;                                   // where the mirror stood
    std::vector<std::pair<std::string, ItemPointer>> before;  // what the step replaced
  };
  using Items = std::map<std::string, ItemPointer, std::less<>>;

  ItemPointer put(Items& items, const CatalogChange& change);  // what was there
  void trim_history();

  const std::uint64_t items_max_;
  const std::size_t history_max_;
  mutable std::shared_mutex mutex_;  // guards all below; held for memory only
  Items items_;
  CatalogPosition position_;
  std::deque<Step> history_;  // oldest first; the last one led to the present position
  std::size_t history_size_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace troupe
