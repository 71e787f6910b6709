#pragma once
// Sizes the item area of a node's pool (pool.item_share). With `auto` it is sized first, for the
// blocks of the catalog's items that router.policy looks up, and users get the other pages (BAT §5.1).
// A node without a router does not know its catalog.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "deploy/node/served_model.h"
#include "placement/split/item_area.h"
#include "runtime/actor/catalog.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

// Blocks that a model's requests look up besides those of users.
struct ModelItemBlocks {
  bool reused = false;               // requests that name no policy look up blocks of items
  std::optional<std::size_t> items;  // in the catalog; nullopt = unknown
  placement::ItemPages pages;        // without a known catalog, only the shared ones
  bool versions = false;             // the model may be changed while it is served
  bool shards = false;               // shards of an embedding table are in the item area, too
};
// Throw ConfigError for an invalid router.policy.
ModelItemBlocks model_item_blocks(const ServedModel& model, const CatalogPointer& catalog);  // null = unknown
ModelItemBlocks model_item_blocks(const ServedModel& model, std::span<const Item> catalog);

inline constexpr const char* no_item_blocks = "no item blocks are reused";

struct ItemArea {
  double share = 0;  // of the pool's pages
  // The area has no pages, and its kinds of blocks are in the user area.
  bool in_user_area = false;
  std::string rule = "pool.item_share";  // how it was sized, in words
};

// `pages` are those of the pool, and `has_rows` tells whether rows of embedding tables have an area of it.
ItemArea item_area(const PoolSettings& settings, std::span<const ModelItemBlocks> models, std::uint32_t pages,
                   bool has_rows);

}  // namespace troupe::deploy
