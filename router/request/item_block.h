#pragma once
// Says which block of a catalog item the plans of a policy look up: its tokens, where it begins and what it
// sees. The plans (plan_prefix.cc, plan_causal.cc) and the blocks that are computed ahead
// (router/precompute) take it from here, so that they look up and compute the same blocks.
#include <cstdint>
#include <span>
#include <vector>

#include "router/request/block_names.h"
#include "router/request/policy.h"
#include "runtime/actor/prompt_form.h"

namespace troupe::router {

// Returns the kind that requests which name neither policy nor arrangement look up, or none.
// `approximate`: the largest share of a prompt that may be approximate where the policy weighs plans
// (router.approximate). Of two kinds, that of the preferred plan. Requires that the policy may be usual
// (why_not_usual).
ItemBlockKind item_block_kind(const Policy& usual, const PromptForm& form, double approximate);

// Where a block begins and what it sees.
struct ItemBlockPlace {
  std::int32_t start = 0;
  bool sees_system = false;
};
ItemBlockPlace item_block_place(ItemBlockKind kind, const PromptForm& form);

// Return, or make of the item's tokens, those of the block: in a movable one the form's item mark precedes
// them.
Tokens item_block_tokens(ItemBlockKind kind, const PromptForm& form, Tokens item);
void make_item_block_tokens(ItemBlockKind kind, const PromptForm& form, std::vector<Token>& item);

// Returns the block's name; `tokens` are the block's.
BlockName item_block_name(ItemBlockKind kind, const PromptForm& form, const BlockNames& names,
                          std::span<const Token> tokens);

}  // namespace troupe::router
