// Reads what a node would serve: the description of its model, and the catalog that it has or would import.
#include "deploy/lab/planning/served_catalog.h"

#include <unordered_map>

#include "deploy/data/dataset.h"
#include "deploy/models/engine.h"
#include "deploy/node/core_configs.h"
#include "deploy/node/features.h"

namespace troupe::deploy {

namespace {

// Returns the items in the order of their numbers.
std::vector<Item> items_of(const Catalog& catalog) {
  std::vector<Item> items;
  for (ItemNumber at = catalog.next(0); at != no_item; at = catalog.next(at + 1)) {
    items.push_back(catalog.item(at).copy());
    items.back().block = {};
  }
  return items;
}

std::vector<Item> imported_items(const std::filesystem::path& data, const ServedModel& model) {
  std::vector<Item> items;
  std::unordered_map<std::string, std::size_t> known;
  for (PutItem& put : read_item_rows(data, {.text = model.text()}).rows) {
    const auto [at, is_new] = known.emplace(put.item, items.size());
    if (is_new) items.emplace_back();
    items[at->second] = {put.item, put.title, {put.tokens.begin(), put.tokens.end()}, put.identifier, {}};
  }
  return items;
}

// Reads the items from the data folder of a node that is not running.
std::vector<Item> stored_items(const Config& config, const ModelFacts& facts) {
  const std::string folder = required_data_dir(config.node);
  if (!std::filesystem::exists(folder))
    throw ConfigError("node.data_dir " + folder +
                      " does not exist; expected the data folder of a node, or --data");
  Store store(folder, store_options(config.store));
  const auto features = open_features(config, &store, feature_limits(config.router, facts), 1,
                                      [](std::span<const Token>) { return BlockName{}; });
  const CatalogPointer catalog = features->present_catalog();
  if (!catalog) throw ConfigError(folder + " has no catalog; expected one made by `troupe import`");
  return items_of(*catalog);
}

}  // namespace

void describe_without_weights(const Config& config, ServedModel& model) {
  model.config = config;
  describe_model(model, all_families());
  model.names = {"as-served", layout_version(model.config)};
}

std::vector<Item> served_catalog(const ServedModel& model, const std::filesystem::path& data) {
  std::vector<Item> items =
      data.empty() ? stored_items(model.config, model.facts) : imported_items(data, model);
  if (items.empty()) throw ImportError("the catalog has no items; expected at least one");
  return items;
}

}  // namespace troupe::deploy
