#pragma once
// What a model computes with of the catalog, version by version: made when the first plan of a version runs,
// kept for the last few versions, and by whoever runs on one for as long as that. So a request is computed
// with what belongs to the catalog that it was planned against, whatever is put meanwhile (promise 4); and
// all of it goes with its model.
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
// May keep the snapshot. Throws if it cannot; called by one thread at a time for each version.
using MakeAssets = std::function<AssetsPointer(CatalogPointer catalog)>;
// The snapshot of that version; null: it is not here (any more).
using FindCatalog = std::function<CatalogPointer(const std::string& catalog_version)>;

// Thread-safe. Whoever wants a version that another thread makes waits for it; others do not.
class ModelAssets {
 public:
  static constexpr std::size_t versions_max = 4;  // the present one, and those of requests that began before

  // No `make`: the model needs what its searches may return, and nothing else.
  ModelAssets(MakeAssets make, FindCatalog find_catalog);

  // Whether a plan against a catalog cannot be computed without.
  bool needed(const kernels::Plan& plan) const { return always_ || plan.search.wants_index(); }
  // Null: that catalog is not here. Throws what making them throws; the next call tries again.
  AssetsPointer of(const std::string& catalog_version);

 private:
  struct Version {
    const std::string catalog_version;
    std::mutex making;
    AssetsPointer assets;  // guarded by `making`
    explicit Version(std::string version) : catalog_version(std::move(version)) {}
  };
  std::shared_ptr<Version> version(const std::string& catalog_version);

  const bool always_;  // and not by searches alone
  const MakeAssets make_;
  const FindCatalog find_catalog_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Version>>
      versions_;  // guarded by mutex_; the one that was asked for last is first
};

}  // namespace troupe::actors
