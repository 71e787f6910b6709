#pragma once
// The snapshots of a catalog that somebody still holds, by version: a worker of the same process finds the
// one that a request was planned against for as long as that request lives.
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/actor/catalog.h"

namespace troupe {

// Thread-safe.
class HeldCatalogs {
 public:
  void note(const CatalogPointer& catalog);
  CatalogPointer find(const std::string& version) const;  // null: nobody holds it, or it was never noted
  std::size_t noted() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Catalog>, std::less<>> catalogs_;
};

}  // namespace troupe
