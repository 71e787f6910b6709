// Builds, at first use, the index of token paths that lets a beam search produce only items of
// the catalog.
#include "runtime/actor/catalog.h"

#include "kernels/base/path_index.h"

namespace troupe {

std::shared_ptr<const kernels::PathIndex> CatalogPaths::of(const Catalog& catalog) {
  if (auto made = std::atomic_load(&paths_)) return made;
  const std::lock_guard lock(building_);
  if (auto made = std::atomic_load(&paths_)) return made;
  std::vector<std::span<const Token>> paths;
  for (ItemNumber item = catalog.next(0); item != no_item; item = catalog.next(item + 1)) {
    paths.resize(item + std::size_t{1});  // unused numbers get no path
    paths[item] = catalog.item(item).tokens;
  }
  auto made = std::make_shared<const kernels::PathIndex>(paths);
  std::atomic_store(&paths_, std::shared_ptr<const kernels::PathIndex>(made));
  return made;
}

}  // namespace troupe
