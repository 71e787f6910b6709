#pragma once
// Holds what a model derives from each catalog version (its assets). Assets are made when the first
// plan of a version runs. They are kept for the last few versions, and for as long as a running
// batch uses them. So a request is computed with the catalog that it was planned against, whatever
// is written meanwhile (promise 4). All assets are freed with their model.
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/executor/executor.h"
#include "runtime/actor/catalog.h"

namespace troupe::actors {

using AssetsPointer = std::shared_ptr<const kernels::CatalogAssets>;
// Makes the assets; may keep the snapshot. Throws on failure. Called by one thread at a time for
// each version.
using MakeAssets = std::function<AssetsPointer(CatalogPointer catalog)>;
// Returns the snapshot of that version; null if it is not here (any more).
using FindCatalog = std::function<CatalogPointer(const std::string& catalog_version)>;

// Thread-safe. A thread that wants a version being made by another thread waits; other threads do
// not.
class ModelAssets {
 public:
  static constexpr std::size_t versions_max = 4;  // the present one, and those of earlier requests

  // Without `make`, the model needs only the paths that its searches may return.
  ModelAssets(MakeAssets make, FindCatalog find_catalog);

  // Returns true if a plan against a catalog cannot be computed without assets.
  bool needed(const kernels::Plan& plan) const { return always_ || plan.search.wants_index(); }
  // Returns null if that catalog is not here. Throws what `make` throws; the next call tries again.
  AssetsPointer of(const std::string& catalog_version);

 private:
  struct Version {
    const std::string catalog_version;
    std::mutex making;
    AssetsPointer assets;  // guarded by `making`
    explicit Version(std::string version) : catalog_version(std::move(version)) {}
  };
  std::shared_ptr<Version> version(const std::string& catalog_version);

  const bool always_;  // true if all plans need assets, not only searches
  const MakeAssets make_;
  const FindCatalog find_catalog_;
  std::mutex mutex_;
  // Guarded by mutex_; the most recently requested version is first.
  std::deque<std::shared_ptr<Version>> versions_;
};

}  // namespace troupe::actors
