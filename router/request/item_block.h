#pragma once
// Says which block of a catalog item the plans of a policy look up: its tokens, where it begins and what it
// sees. Approximate plans (plan_causal.cc) and precomputing (router/precompute) take it from here, so that
// requests find the blocks that are precomputed. plan_prefix.cc builds the same prefix block;
// item_block_test.cc compares them.
#include <cstdint>
#include <span>
#include <vector>

#include "router/request/block_names.h"
#include "router/request/policy.h"
#include "runtime/actor/prompt_form.h"

namespace troupe::router {

// Returns the kind that requests which name neither policy nor arrangement look up, or none. `approximate`:
// the largest share of a prompt that may be approximate where the policy weighs plans (router.approximate).
// If they may look up both kinds, it is that of the exact plan, prefix. Requires that the policy may be usual
// (why_not_usual).
ItemBlockKind item_block_kind(const Policy& usual, const PromptForm& form, double approximate);

// Start of a block, and what it sees.
struct ItemBlockPlace {
  std::int32_t start = 0;
  bool sees_system = false;
};
ItemBlockPlace item_block_place(ItemBlockKind kind, const PromptForm& form);

// Returns the block's tokens: the item's, behind the form's item mark.
std::vector<Token> item_block_tokens(ItemBlockKind kind, const PromptForm& form, std::span<const Token> item);

// Returns the name of the block with these tokens.
BlockName item_block_name(ItemBlockKind kind, const PromptForm& form, const BlockNames& names,
                          std::span<const Token> block);

}  // namespace troupe::router
