#pragma once
// The planner of segments.md, over the two prefixes of BAT §4.2: which one, given what a node holds. BAT's
// rule asks which side is longer and how hot the user is; the planner asks what each prefix would cost there
// now, and what it would leave behind for later requests.
//
//   cost(prefix)  = tokens that must be computed, in tokens of linear work: a token counts 1 plus
//                   `attention_share` for each pair of it and a token that it attends to; a block that
//                   another node has counts as its transfer does (held_blocks.h)
//   gain(prefix)  = uses · max(0, least cost now − cost if what this prefix keeps had been there)
//   chosen        = the prefix with the smaller cost − gain; on a tie items, for they serve everybody
//
// Uses are how often such a request is expected again while the block lives: for the user's block as the
// index saw such blocks wanted again within what the memory holds (placement/heat/return_rate.h); for item blocks
// their earlier uses in the window if there is room. A block that is kept somewhere already gains nothing.
// What has to go for a block is the KV-cache worker's to say: it keeps by use, not by kind, and copies of
// what other nodes have go sooner.
#include <span>
#include <vector>

#include "router/request/held_blocks.h"

namespace troupe::router {

// What plans of one request are made of, in tokens.
struct PromptSizes {
  double system = 0, user = 0;
  std::vector<double> items;

  static PromptSizes of(std::size_t system_tokens, std::size_t user_tokens, std::span<const ItemView> items);
};

// What has to be computed, of 0 (all is there) to 1 (nothing is).
struct MissingShares {
  double user = 1;
  std::vector<double> items;  // parallel to PromptSizes::items; empty: 1 for each
};

// In tokens of linear work, without what both prefixes share: the system segment, instruction, discriminant.
double plan_cost(Prefix prefix, const PromptSizes& sizes, const MissingShares& missing,
                 double attention_share);

struct ExpectedUses {
  double user = 0, items = 0;  // of what is kept nowhere yet; 0 for what is kept
};

struct PlanChoice {
  Prefix prefix = Prefix::item;
  double cost = 0, gain = 0;  // tokens of linear work
};
PlanChoice weigh_plans(const PromptSizes& sizes, const MissingShares& missing, const ExpectedUses& uses,
                       double attention_share);

}  // namespace troupe::router
