#pragma once
// Keeps a router's copy in memory of a catalog stored elsewhere, each item with the name of its
// block. It follows the store from version to version and keeps the snapshots of recent steps. So a
// request can be answered from exactly the version at which its profile was read, although other
// executor slots have moved on. Pure: nothing here talks to the store.
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
  std::optional<Item> item;  // nullopt: erased
};

// Identifies a version of the store's catalog. Equal versions mean equal contents only within one
// lineage: a restarted store may have lost its last writes, and an emptied one starts again.
struct CatalogPosition {
  std::string run, origin;    // ids of the store's process and of its data; "": nothing read yet
  std::uint64_t version = 0;  // 0 = the empty catalog
  bool same_lineage(const CatalogPosition& other) const { return run == other.run && origin == other.origin; }
  bool operator==(const CatalogPosition&) const = default;
};

// Thread-safe. Every operation takes time proportional to its changes, except replace().
class CatalogMirror {
 public:
  // Items beyond `items_max` are left out and counted. `history_max`: number of leaves kept only
  // for earlier snapshots (stored_catalog.h; some kilobytes each).
  CatalogMirror(std::uint64_t items_max, std::size_t history_max)
      : items_max_(items_max), history_max_(history_max) {}

  CatalogPosition position() const;
  std::uint64_t items() const;
  std::uint64_t left_out() const;
  StoredCatalogPointer present() const;

  // Replaces the catalog. `all` is in order of version, with each id at its last change. Does
  // nothing if the mirror has this lineage at the same or a newer version.
  void replace(const CatalogPosition& to, std::span<const CatalogChange> all);
  // Applies all changes in (from, to], in order of version, with each id at its last change. Does
  // nothing if they are applied already, or if the mirror has another lineage or an older version
  // than `from`. The mirror passes through each version before the first one missing from
  // `changes`, because up to there no id was changed twice.
  void advance(const CatalogPosition& from, std::uint64_t to, std::span<const CatalogChange> changes);

  // Returns the catalog at `position`, or null if it is unknown or forgotten. The mirror knows
  // positions that it passed through, and version 0 of every lineage.
  StoredCatalogPointer at(const CatalogPosition& position) const;
  // Finds a snapshot of the present lineage by its name ("c7").
  StoredCatalogPointer named(const std::string& version) const;
  // Returns the catalog after these changes on top of `from`, without moving the mirror; null if
  // `from` is unknown. The mirror need not have passed through `to`.
  StoredCatalogPointer branch(const CatalogPosition& from, std::uint64_t to,
                              std::span<const CatalogChange> changes) const;

 private:
  struct Step {
    StoredCatalogPointer before;
    std::size_t leaves = 0;  // leaves that are in no later snapshot
  };

  StoredCatalogPointer find(const CatalogPosition& position) const;
  void step_to(std::uint64_t version, std::span<const CatalogChange> changes);
  // Publishes the changes as `to`. Returns the number of items left out.
  std::uint64_t apply(CatalogWriter& writer, std::span<const CatalogChange> changes, std::uint64_t to) const;
  void trim_history();

  const std::uint64_t items_max_;
  const std::size_t history_max_;
  const StoredCatalogPointer empty_ = std::make_shared<const StoredCatalog>();
  mutable std::mutex mutex_;  // guards all below; held for memory operations only
  CatalogWriter writer_;      // its last snapshot is at `position_`
  CatalogPosition position_;
  std::deque<Step> history_;  // oldest first; the last step led to the present position
  std::size_t history_size_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace troupe
