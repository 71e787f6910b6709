// Finds catalog snapshots (immutable states of the catalog) by version for as long as a request
// uses them.
#include "runtime/features/catalogs_in_use.h"

namespace troupe {

// Snapshots that nobody holds any more are forgotten whenever a new one is noted.
void CatalogsInUse::note(const CatalogPointer& catalog) {
  const std::lock_guard lock(mutex_);
  if (const auto at = catalogs_.find(catalog->version());
      at != catalogs_.end() && at->second.lock() == catalog)
    return;
  std::erase_if(catalogs_, [](const auto& entry) { return entry.second.expired(); });
  catalogs_[catalog->version()] = catalog;
}

CatalogPointer CatalogsInUse::find(const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const auto at = catalogs_.find(version);
  return at == catalogs_.end() ? nullptr : at->second.lock();
}

std::size_t CatalogsInUse::noted() const {
  const std::lock_guard lock(mutex_);
  return catalogs_.size();
}

}  // namespace troupe
