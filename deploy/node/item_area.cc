// Counts the pages of the item blocks that a node's models look up, and sizes the item area by them.
#include "deploy/node/item_area.h"

#include <algorithm>
#include <utility>

#include "deploy/node/core_configs.h"
#include "router/request/item_block.h"
#include "runtime/pool/pool_areas.h"

namespace troupe::deploy {
namespace {

// Returns what does not depend on the catalog.
ModelItemBlocks without_catalog(const ServedModel& model, router::ItemBlockKind kind) {
  ModelItemBlocks blocks{.reused = kind != router::ItemBlockKind::none,
                         .versions = !model.config.model.versions.empty(),
                         .shards = model.has_sharded_table()};
  blocks.pages.shared = model.facts.layout.pages_for(model.prompt.system.size());
  return blocks;
}

// Each block begins on a page of its own. An item without tokens has none.
std::uint64_t block_pages(const ServedModel& model, router::ItemBlockKind kind, std::span<const Token> item) {
  if (item.empty()) return 0;
  return model.facts.layout.pages_for(router::item_block_tokens(kind, model.prompt, item).size());
}

std::string number(std::uint64_t count, const char* what) { return std::to_string(count) + " " + what; }

// Blocks that all models of a node look up.
struct NodeItemBlocks {
  bool reused = false, versions = false, shards = false, is_known = true;
  std::uint64_t items = 0, pages = 0, wanted = 0;
};

NodeItemBlocks sum_of(std::span<const ModelItemBlocks> models) {
  NodeItemBlocks sum;
  for (const ModelItemBlocks& model : models) {
    sum.shards = sum.shards || model.shards;
    sum.pages += model.pages.items;
    sum.wanted += placement::wanted_pages(model.pages);
    if (!model.reused) continue;
    sum.reused = true;
    sum.versions = sum.versions || model.versions;
    sum.is_known = sum.is_known && model.items;
    sum.items += model.items.value_or(0);
  }
  return sum;
}

// Returns why the area has half of the pages without regard to the catalog; "" if it has not.
std::string why_half(const NodeItemBlocks& blocks) {
  if (blocks.shards) return "half: shards of embedding tables are in it";
  if (!blocks.reused) return "";
  if (blocks.versions) return "half: blocks of earlier versions of the model stay in it for a while";
  if (!blocks.is_known) return "half: the catalog is unknown";
  return blocks.items == 0 ? "half: the catalog is empty" : "";
}

}  // namespace

ModelItemBlocks model_item_blocks(const ServedModel& model, const CatalogPointer& catalog) {
  const router::ItemBlockKind kind = item_blocks_of(model);
  ModelItemBlocks blocks = without_catalog(model, kind);
  if (!catalog || !blocks.reused) return blocks;
  blocks.items = 0;
  for (ItemNumber at = catalog->next(0); at != no_item; at = catalog->next(at + 1)) {
    ++*blocks.items;
    blocks.pages.items += block_pages(model, kind, catalog->item(at).tokens);
  }
  return blocks;
}

ModelItemBlocks model_item_blocks(const ServedModel& model, std::span<const Item> catalog) {
  const router::ItemBlockKind kind = item_blocks_of(model);
  ModelItemBlocks blocks = without_catalog(model, kind);
  if (!blocks.reused) return blocks;
  blocks.items = catalog.size();
  for (const Item& item : catalog) blocks.pages.items += block_pages(model, kind, item.tokens);
  return blocks;
}

ItemArea item_area(const PoolSettings& settings, std::span<const ModelItemBlocks> models, std::uint32_t pages,
                   bool has_rows) {
  if (settings.item_share) return {.share = *settings.item_share};
  const auto rows = has_rows ? static_cast<std::uint32_t>(settings.row_share * pages) : 0;
  const std::uint32_t left = pages - std::min(rows, pages);
  const NodeItemBlocks blocks = sum_of(models);
  if (std::string why = why_half(blocks); !why.empty())
    return {.share = placement::share_of_pages(left / 2, pages), .rule = std::move(why)};
  const double share = placement::share_of_pages(placement::item_area_pages(blocks.wanted, left), pages);
  if (blocks.reused) {
    const bool fits = blocks.wanted <= left / 2;
    return {.share = share,
            .rule = fits ? number(blocks.pages, "pages for the blocks of ") +
                               number(blocks.items, "items, and a reserve")
                         : "half: the blocks of " + number(blocks.items, "items, with the reserve, take ") +
                               number(blocks.wanted, "pages")};
  }
  // A policy of pool.split moves the boundary by what each area saves, so both keep their blocks.
  if (!settings.split.empty()) return {.share = share, .rule = no_item_blocks};
  return {.in_user_area = true, .rule = no_item_blocks};
}

}  // namespace troupe::deploy
