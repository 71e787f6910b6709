#pragma once
// Snapshots of the world's catalogs, with block names under one model. Items are computed on first use and
// kept as long as the snapshot, so a hundred million items cost nothing until then. A snapshot that has
// computed too many items is replaced by a new one of the same state, and lives as long as requests use it.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "runtime/actor/ports.h"
#include "sim/world/world_data.h"

namespace troupe::sim {

// Cache of the names of item blocks under a model. Each name is computed once, since hashing dominates the
// cost. Shared by all routers.
class ItemNames {
 public:
  using NameItem = std::function<BlockName(const std::string& model_version, std::span<const Token> tokens)>;
  ItemNames(NameItem name_item, std::size_t names_max)
      : name_item_(std::move(name_item)), names_max_(names_max) {}

  BlockName name(const std::string& model_version, std::uint64_t model_key, std::span<const Token> tokens);
  std::size_t size() const { return names_.size(); }

 private:
  NameItem name_item_;
  std::size_t names_max_;                               // the cache is cleared above this number
  std::unordered_map<std::uint64_t, BlockName> names_;  // by hash of model and tokens; never iterated
};

// Catalog version as of its creation. World and names must outlive it.
class WorldCatalog final : public Catalog {
 public:
  WorldCatalog(const WorldData& world, ItemNames& names, std::string version, std::string model_version);

  const std::string& version() const override { return version_; }
  ItemNumber find(std::string_view id) const override;
  ItemView item(ItemNumber number) const override;
  ItemNumber next(ItemNumber from) const override;

  WorldData::Edition edition() const { return edition_; }
  std::size_t computed() const { return items_.size(); }

 private:
  const std::optional<Item>& compute(ItemNumber number) const;

  const WorldData& world_;
  ItemNames& names_;
  const std::string version_, model_version_;
  const std::uint64_t model_key_;
  const WorldData::Edition edition_;
  const ItemNumber numbers_;                                           // all numbers are below this
  mutable std::unordered_map<ItemNumber, std::optional<Item>> items_;  // items used so far; never iterated
};

// Catalogs of the world's present state.
class WorldCatalogs {
 public:
  WorldCatalogs(const WorldData& world, ItemNames::NameItem name_item, std::size_t names_max,
                std::size_t computed_max = 65'536)
      : world_(world), names_(std::move(name_item), names_max), computed_max_(computed_max) {}

  CatalogPointer at(const std::string& version, const std::string& model_version);
  std::size_t names() const { return names_.size(); }

 private:
  const WorldData& world_;
  ItemNames names_;
  const std::size_t computed_max_;  // items per snapshot
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const WorldCatalog>> catalogs_;
};

}  // namespace troupe::sim
