#pragma once
// Repairs of expected rankings: which tokens of a prompt have blocks, and which of these are computed again.
// They are chosen without the router's code (expected_results.h).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/base/plan.h"
#include "runtime/actor/prompt_form.h"
#include "sim/world/expected_results.h"

namespace troupe::sim {

using TokenRun = std::span<const Token>;

// Tokens of a ranking's prompt.
struct Prompt {
  const PromptForm& form;
  std::vector<Token> user;                // the form's tokens, then the history
  std::vector<std::vector<Token>> items;  // each behind the form's mark of an item
  std::size_t longest_item = 0;
  std::size_t item_tokens = 0;      // of all items together
  std::vector<bool> in_place = {};  // per item: it has no block, if the others have
  std::size_t in_place_tokens = 0;
  std::vector<std::uint32_t> events = {};  // tokens of each kept event, with the form's mark of an event
  std::size_t tokens_in_a_row() const { return item_tokens + items.size() * form.score.size(); }
};

// How the items of an item-first prompt are repaired.
struct ItemRepair {
  bool in_order = false;  // items, or their repaired tokens, see the items before them
  bool blocks = true;     // items are, or are filled from, blocks
  kernels::Repair repair;
  std::size_t changed = 0;  // tokens that differ from those of their blocks
};

// Run of prompt tokens; `is_reused_span` = its keys and values are reused from a block; `is_score` = an
// item's score is read at its last token.
struct Part {
  TokenRun tokens;
  bool is_reused_span = false, is_score = false;
  bool is_item = false;
};

// The parts of a prompt that have blocks, and how they are repaired.
struct Blocks {
  std::vector<Part> history;  // empty = the history is computed as a whole
  std::size_t history_tokens = 0, item_tokens = 0;
  kernels::Repair repair;  // without its places
  bool by_tail = false;    // a budget is chosen by the attention of what follows
  std::size_t left() const {
    std::size_t computed = repair.always.size();
    for (const std::uint32_t budget : repair.budgets) computed += budget;
    return history_tokens + item_tokens - computed;
  }
};

// Returns how the items of an item-first prompt of so many tokens are repaired.
ItemRepair item_repair_of(const Prompt& p, const RequestedRepair& asked, std::size_t prompt_tokens);

// Returns the blocks of a plain prompt of so many tokens, and their repair. With `history_too`, parts of the
// history have blocks as well.
Blocks blocks_of(const Prompt& p, const RequestedRepair& asked, std::string_view model_version,
                 bool history_too, std::size_t prompt_tokens);

}  // namespace troupe::sim
