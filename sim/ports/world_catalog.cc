// Serves snapshots of the simulated catalogs, whose items are computed when first needed.
#include "sim/ports/world_catalog.h"

#include "kernels/base/check.h"

namespace troupe::sim {

BlockName ItemNames::name(const std::string& model_version, std::uint64_t model_key,
                          std::span<const Token> tokens) {
  const std::uint64_t key = mix(model_key, hash_of(tokens));
  if (const auto at = names_.find(key); at != names_.end()) return at->second;
  if (names_.size() >= names_max_) names_.clear();
  return names_[key] = name_item_(model_version, tokens);
}

WorldCatalog::WorldCatalog(const WorldData& world, ItemNames& names, std::string version,
                           std::string model_version)
    : world_(world),
      names_(names),
      version_(std::move(version)),
      model_version_(std::move(model_version)),
      model_key_(hash_of(model_version_)),
      edition_(world.edition()),
      numbers_(world.item_numbers()) {}

const std::optional<Item>& WorldCatalog::compute(ItemNumber number) const {
  const auto [at, is_new] = items_.try_emplace(number);
  if (is_new) at->second = world_.item(world_.id_of(number), version_, edition_);
  if (is_new && at->second) at->second->block = names_.name(model_version_, model_key_, at->second->tokens);
  return at->second;
}

ItemNumber WorldCatalog::find(std::string_view id) const {
  const auto number = world_.item_number(id);
  return number && *number < numbers_ && compute(*number) ? *number : no_item;
}

ItemView WorldCatalog::item(ItemNumber number) const {
  TROUPE_CHECK(number < numbers_ && compute(number), "the item must be in this snapshot");
  return *compute(number);
}

ItemNumber WorldCatalog::next(ItemNumber from) const {
  while (from < numbers_ && !compute(from)) ++from;
  return from < numbers_ ? from : no_item;
}

CatalogPointer WorldCatalogs::at(const std::string& version, const std::string& model_version) {
  std::shared_ptr<const WorldCatalog>& known = catalogs_[{version, model_version}];
  if (!known || known->edition() != world_.edition() || known->computed() >= computed_max_)
    known = std::make_shared<const WorldCatalog>(world_, names_, version, model_version);
  return known;
}

}  // namespace troupe::sim
