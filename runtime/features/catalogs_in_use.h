#pragma once
// Finds the snapshots of a catalog that are still in use, by version. A worker in the same process
// thus finds the snapshot of a request's plan for as long as that request lives.
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/actor/catalog.h"

namespace troupe {

// Thread-safe.
class CatalogsInUse {
 public:
  void note(const CatalogPointer& catalog);
  // null: nobody holds it, or it was never noted
  CatalogPointer find(const std::string& version) const;
  std::size_t noted() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Catalog>, std::less<>> catalogs_;
};

}  // namespace troupe
