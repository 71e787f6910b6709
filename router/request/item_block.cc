// Tells the kinds of item blocks apart: an item-first plan puts a block of the item mark and the item's
// tokens behind the system prompt; an approximate plan moves such a block to any place.
#include "router/request/item_block.h"

#include "kernels/base/check.h"
#include "router/request/allowed_plans.h"

namespace troupe::router {

ItemBlockKind item_block_kind(const Policy& usual, const PromptForm& form, double approximate) {
  if (form.generates() || !usual->reuses) return ItemBlockKind::none;
  for (const PlanKind* plan :
       allowed_plans(usual, Arrangement::unnamed, form, !usual->weighs || approximate > 0)) {
    const bool recomputes_all = usual.repair_of(*plan).share >= 1;
    if (plan->item_blocks != ItemBlockKind::none && !recomputes_all) return plan->item_blocks;
  }
  return ItemBlockKind::none;
}

ItemBlockPlace item_block_place(ItemBlockKind kind, const PromptForm& form) {
  if (kind == ItemBlockKind::movable && !form.blocks_see_system) return {};
  return {static_cast<std::int32_t>(form.system.size()), true};
}

std::vector<Token> item_block_tokens(ItemBlockKind kind, const PromptForm& form,
                                     std::span<const Token> item) {
  TROUPE_CHECK(kind != ItemBlockKind::none, "a kind of block is asked for");
  std::vector<Token> tokens;
  tokens.reserve(form.item.size() + item.size());
  tokens.insert(tokens.end(), form.item.begin(), form.item.end());
  tokens.insert(tokens.end(), item.begin(), item.end());
  return tokens;
}

BlockName item_block_name(ItemBlockKind kind, const PromptForm& form, const BlockNames& names,
                          std::span<const Token> block) {
  TROUPE_CHECK(kind != ItemBlockKind::none, "a kind of block is asked for");
  return item_block_place(kind, form).sees_system ? names.item(block) : names.item_alone(block);
}

}  // namespace troupe::router
