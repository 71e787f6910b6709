#pragma once
// The plans of a ranking request: the segments of its prompt, where they start, what they see, and which of
// them are blocks. One table has them all; each is built by a function of its own (plan_prefix.cc: the two
// prefixes of BAT §4.2). A policy (policy.h) says which of them a request considers, and chooses.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/request/block_names.h"
#include "router/request/candidate.h"
#include "router/request/prompt.h"
#include "runtime/actor/metrics.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

// What a plan is made of. All that it refers to outlives the building.
struct RankPrompt {
  const PromptForm& form;
  const BlockNames* names = nullptr;  // none: nothing is reused, nothing kept
  std::string_view tenant, user;
  Tokens history;          // the newest that fits, behind the form's tokens
  CatalogPointer catalog;  // whose items they are; plans keep it alive
  std::span<const ItemView> items;
  // Of each item's block, the share of its first tokens that is computed again with all before it in sight,
  // and stands in for them. 0..1; only in plans whose items are computed alone.
  double repair = 0;

  Tokens tokens_of(const ItemView& item) const { return {catalog, item.tokens}; }
};

struct PlanKind {
  std::string_view name;
  Candidate (*build)(const RankPrompt& prompt);
  bool repairs = false;          // its items are computed alone
  bool one_after_other = false;  // items have positions of their own, not all the same ones
  Metric metric = Metric::plans_other;
};
std::span<const PlanKind> plan_kinds();
const PlanKind* find_plan(std::string_view name);  // null: there is none
std::string plan_names();                          // "user, item"

// Positions that its items take.
std::size_t item_positions(const PlanKind& kind, std::span<const ItemView> items);

// Of a generator: system → user, part by part, and the search behind it.
Candidate search_plan(const RankPrompt& prompt, Search search);
Candidate user_plan(const RankPrompt& prompt);
Candidate item_plan(const RankPrompt& prompt);
Candidate causal_plan(const RankPrompt& prompt);
Candidate blocks_plan(const RankPrompt& prompt);

}  // namespace troupe::router
