// Keeps what a model derives from each catalog version (its assets, such as an index of items).
// Assets stay for the last few versions and as long as a running batch uses them.
#include "actors/inference/model_assets_port.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {

namespace {

AssetsPointer make_paths(const CatalogPointer& catalog) {
  return std::make_shared<kernels::PathAssets>(catalog->paths());
}

}  // namespace

ModelAssets::ModelAssets(MakeAssets make, FindCatalog find_catalog)
    : always_(make != nullptr),
      make_(make ? std::move(make) : make_paths),
      find_catalog_(std::move(find_catalog)) {}

AssetsPointer ModelAssets::of(const std::string& catalog_version) {
  const std::shared_ptr<Version> wanted = version(catalog_version);
  const std::lock_guard lock(wanted->making);
  if (wanted->assets) return wanted->assets;
  CatalogPointer catalog = find_catalog_ ? find_catalog_(catalog_version) : nullptr;
  if (catalog) wanted->assets = make_(std::move(catalog));
  return wanted->assets;
}

std::shared_ptr<ModelAssets::Version> ModelAssets::version(const std::string& catalog_version) {
  const std::lock_guard lock(mutex_);
  const auto at =
      std::ranges::find(versions_, catalog_version, [](const auto& v) { return v->catalog_version; });
  std::shared_ptr<Version> wanted = at != versions_.end() ? *at : std::make_shared<Version>(catalog_version);
  if (at != versions_.end()) versions_.erase(at);
  versions_.push_front(wanted);
  if (versions_.size() > versions_max) versions_.pop_back();
  return wanted;
}

}  // namespace troupe::actors
