#pragma once
// A router's own copy of a catalog that lives elsewhere, in memory, each item with the name of its block. It
// follows the store from version to version and keeps the snapshots of its last steps for a while, so that a
// request can be answered from exactly the version that its profile was read at, although other lanes have
// moved on in between. Pure: nothing here talks to the store.
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "runtime/features/stored_catalog.h"

namespace troupe {

struct CatalogChange {
  std::string id;
  std::uint64_t version = 0;
  std::optional<Item> item;  // none: it is gone
};

// Equal versions mean equal contents only within one lineage: a store that came back from a restart may have
// lost its last writes, and one that was emptied starts again.
struct CatalogPosition {
  std::string run, origin;    // of the store's process, and of what it holds; "": nothing was seen yet
  std::uint64_t version = 0;  // 0 is the empty catalog
  bool same_lineage(const CatalogPosition& other) const { return run == other.run && origin == other.origin; }
  bool operator==(const CatalogPosition&) const = default;
};

// Thread-safe. Everything but a whole catalog takes as long as its changes.
class CatalogMirror {
 public:
  // More than `items_max` items are left out and counted. `history_max`: leaves of the catalog that are kept
  // only because earlier snapshots have them (stored_catalog.h; some kilobytes each).
  CatalogMirror(std::uint64_t items_max, std::size_t history_max)
      : items_max_(items_max), history_max_(history_max) {}

  CatalogPosition position() const;
  std::uint64_t items() const;
  std::uint64_t left_out() const;
  StoredCatalogPointer present() const;

  // A whole catalog, in order of version, an id at its last place. Nothing if this lineage is here already,
  // as new or newer.
  void replace(const CatalogPosition& to, std::span<const CatalogChange> all);
  // All changes in (from, to], in order of version, an id at its last place. Nothing if they are here
  // already, or if the mirror is in another lineage or stands before `from`. It stands at each version on the
  // way before the first one that is not among the changes: up to there no id was changed twice.
  void advance(const CatalogPosition& from, std::uint64_t to, std::span<const CatalogChange> changes);

  // The catalog as it stood at `at`; null if that is not known (any more). The mirror knows the positions at
  // which it stood itself, and version 0 of every lineage.
  StoredCatalogPointer at(const CatalogPosition& position) const;
  // In the present lineage, by its name ("c7").
  StoredCatalogPointer named(const std::string& version) const;
  // As it stood after these changes on top of `from`, whether the mirror has stood there or not; null if
  // `from` is not known. The mirror stays where it is.
  StoredCatalogPointer branch(const CatalogPosition& from, std::uint64_t to,
                              std::span<const CatalogChange> changes) const;

 private:
  struct Step {
    StoredCatalogPointer before;
    std::size_t leaves = 0;  // that are in no later snapshot
  };

  StoredCatalogPointer find(const CatalogPosition& position) const;
  void step_to(std::uint64_t version, std::span<const CatalogChange> changes);
  // Publishes them as `to`; how many items it left out.
  std::uint64_t apply(CatalogWriter& writer, std::span<const CatalogChange> changes, std::uint64_t to) const;
  void trim_history();

  const std::uint64_t items_max_;
  const std::size_t history_max_;
  const StoredCatalogPointer empty_ = std::make_shared<const StoredCatalog>();
  mutable std::mutex mutex_;  // guards all below; held for memory only
  CatalogWriter writer_;      // what it published last is of `position_`
  CatalogPosition position_;
  std::deque<Step> history_;  // oldest first; the last one led to the present position
  std::size_t history_size_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace troupe
