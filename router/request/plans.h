#pragma once
// The plans of a ranking request: the segments of its prompt, where they start, what they see, and which of
// them are blocks. One table has them all; each is built by a function of its own (plan_prefix.cc: the two
// prefixes of BAT §4.2; plan_causal.cc: plain prompts; plan_events.cc: events without a frame). A policy
// (policy.h) says which of them a request considers, and chooses.
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

// What a plan is made of. All that it refers to outlives the building.
struct RankPrompt {
  const PromptForm& form;
  const BlockNames* names = nullptr;  // none: nothing is reused, nothing kept
  std::string_view tenant, user;
  Tokens history;  // the newest that fits, behind the form's tokens
  std::span<const std::uint32_t>
      events;              // tokens of each of its events, the last ones of `history`; may be empty
  CatalogPointer catalog;  // whose items they are; plans keep it alive
  std::span<const ItemView> items;
  RepairChoice
      repair;  // only in plans whose items are computed alone; by the first tokens in those of a prefix
  double approximate_max = 1;  // most of the prompt's tokens, as a share, that a repair may leave
  // Of plans without a frame: what the history's events have beside items, and the request's time and
  // scenario.
  std::span<const Feature> features = {};
  std::int64_t now = 0;
  std::int64_t scenario = 0;

  Tokens tokens_of(const ItemView& item) const { return {catalog, item.tokens}; }
};

struct PlanKind {
  std::string_view name;
  Candidate (*build)(const RankPrompt& prompt);
  bool repairs = false;          // its items are computed alone
  bool approximate = false;      // it gives another answer than the prompt it stands for
  bool one_after_other = false;  // items have positions of their own, not all the same ones
  Metric metric = Metric::plans_other;
};
std::span<const PlanKind> plan_kinds();            // of framed prompts
const PlanKind* find_plan(std::string_view name);  // of all; null: there is none
std::string plan_names();                          // "user, item"

// Positions that its items take.
std::size_t item_positions(const PlanKind& kind, const PromptForm& form, std::span<const ItemView> items);

// Of a candidate without a frame: a readout of each task.
void add_task_readouts(const PromptForm& form, std::uint32_t segment, Plan& plan);

// Of a generator: system → user, part by part, and the search behind it.
Candidate search_plan(const RankPrompt& prompt, Search search);
Candidate user_plan(const RankPrompt& prompt);
Candidate item_plan(const RankPrompt& prompt);
Candidate causal_plan(const RankPrompt& prompt);
Candidate blocks_plan(const RankPrompt& prompt);
Candidate history_plan(const RankPrompt& prompt);
Candidate towers_plan(const RankPrompt& prompt);
Candidate all_blocks_plan(const RankPrompt& prompt);

}  // namespace troupe::router
