#pragma once
// Plans of a ranking request: the segments of its prompt, where they start, what they see, and
// which of them are blocks. One table lists all plans, each with its arrangement; an exact plan gives
// what the plain computation of its arrangement gives. A separate function builds each:
// plan_prefix.cc (the two prefixes of BAT §4.2, and candidates apart), plan_causal.cc (plain
// prompts), plan_events.cc (events without a frame). A policy (policy.h) says which of the plans that
// the model's form allows (allowed_plans.h) a request considers, and chooses one.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/request/block_names.h"
#include "router/request/candidate.h"
#include "router/request/prompt.h"
#include "router/request/repair_choice.h"
#include "runtime/actor/metrics.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

// Inputs of a plan. Everything that it refers to must outlive the building.
struct RankPrompt {
  const PromptForm& form;
  const BlockNames* names = nullptr;  // null = nothing is reused or kept
  std::string_view tenant, user;
  Tokens history;  // newest part that fits, after the form's tokens
  std::span<const std::uint32_t>
      events;              // token counts of its events, the last ones of `history`; may be empty
  CatalogPointer catalog;  // owner of the items' tokens; plans keep it alive
  std::span<const ItemView> items;
  RepairChoice repair;         // of plans whose items may be blocks that are repaired
  double approximate_max = 1;  // maximum share of the prompt's tokens that may be approximate
  // Used by plans without a frame: the history's further features, the request's time and its
  // scenario.
  std::span<const Feature> features = {};
  std::int64_t now = 0;
  std::int64_t scenario = 0;
  // Used by plans that move blocks of items: 1 for each item that is computed in its place instead, exactly
  // and without a block; empty = none.
  std::span<const std::uint8_t> in_place = {};

  bool is_in_place(std::size_t item) const { return item < in_place.size() && in_place[item] != 0; }
  Tokens tokens_of(const ItemView& item) const { return {catalog, item.tokens}; }
  Tokens marked_tokens_of(const ItemView& item) const;  // behind the form's item mark
};

// The block of a catalog item that a plan looks up (item_block.h): the form's item mark and the item's
// tokens.
enum class ItemBlockKind : std::uint8_t {
  none,     // the plan reuses no blocks of items
  prefix,   // seen where it was computed, behind the system prompt (BAT §4.2)
  movable,  // used at any position (RcLLM §III-B)
};

struct PlanKind {
  std::string_view name;
  Arrangement arrangement;
  Candidate (*build)(const RankPrompt& prompt);
  bool repairs = false;  // its items are blocks that a policy may have repaired
  // Its answer differs from the plain computation of its arrangement. Of a plan for which this is false, only
  // an answer with a repair does.
  bool approximate = false;
  ItemBlockKind item_blocks = ItemBlockKind::none;
  bool of_prototypes = false;  // needs the model's prototypes, whatever its repair says
  Metric metric = Metric::plans_other;
};
std::span<const PlanKind> plan_kinds();               // plans of framed prompts that need nothing but a model
const PlanKind* find_plan(std::string_view name);     // among all plans; null = not found
std::string plan_names();                             // "user, item"
const PlanKind& exact_plan(Arrangement arrangement);  // requires that the arrangement is named

// Returns the number of positions that its items take.
std::size_t item_positions(const PlanKind& kind, const PromptForm& form, std::span<const ItemView> items);

// Adds a readout for each task after a candidate without a frame.
void add_task_readouts(const PromptForm& form, std::uint32_t segment, Plan& plan);

// Builds a generator's plan: system → user in parts, then the search.
Candidate search_plan(const RankPrompt& prompt, Search search);
Candidate user_plan(const RankPrompt& prompt);
Candidate item_plan(const RankPrompt& prompt);
Candidate causal_plan(const RankPrompt& prompt);
Candidate apart_plan(const RankPrompt& prompt);
Candidate blocks_plan(const RankPrompt& prompt);
Candidate history_plan(const RankPrompt& prompt);
// Builds the plan of a model of next items for the best items of the catalog: the history, then the search.
Candidate history_search_plan(const RankPrompt& prompt, Search search);
Candidate towers_plan(const RankPrompt& prompt);
Candidate all_blocks_plan(const RankPrompt& prompt);
Candidate prototypes_plan(const RankPrompt& prompt);

}  // namespace troupe::router
