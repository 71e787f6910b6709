#pragma once
// Expected results of requests, computed independently for each kind of plan: value by value on the toy
// model, without a cache and without code of the cluster's plan builders. A plan error there (a wrong
// start, too much visible, a wrong readout token) gives different numbers here.
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "router/request/plans.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"
#include "runtime/actor/prompt_form.h"
#include "sim/world/toy_model.h"

namespace troupe::sim {

struct ExpectedRanking {
  Arrangement arrangement = Arrangement::unnamed;  // whose computation the plan is, or approximates
  std::vector<double> scores;                      // of the items, in their order
  std::uint32_t tokens = 0;                        // of the whole prompt
  std::uint32_t history_cut = 0;                   // events that did not fit, oldest first
  double approximate = 0;                          // approximate share of the prompt's tokens
};
// Amount of repair in a plan with blocks: the policy's choice, and the largest approximate share of the
// prompt.
struct RequestedRepair {
  router::RepairChoice choice;  // if budgets differ, all or none of them choose by first tokens
  double approximate_max = 1;
  // Items whose blocks were missing: computed in their place, if the plan reuses blocks of items.
  std::set<std::string, std::less<>> in_place = {};
};
// Returns nullopt unless the plan is "user", "item" (BAT §4.2), "causal", "apart", "blocks", "all_blocks",
// "history", "towers" or, if the form has prototypes, "prototypes". "history" and "towers" have one token per
// event and item, and all events have the same action.
std::optional<ExpectedRanking> expected_ranking(const PromptForm& form, std::string_view model_version,
                                                std::string_view plan, const Profile& profile,
                                                std::span<const Item> items, const ToyFamily& family,
                                                const RequestedRepair& repair = {});

struct ExpectedScores {
  std::vector<ScoreRow> items;
  std::uint32_t tokens = 0;
};

struct ExpectedGeneration {
  std::vector<GeneratedItem> items;
  std::uint32_t width = 0;        // width of the search
  std::uint32_t asked_for = 0;    // requested number of items
  std::uint32_t tokens = 0;       // of the whole prompt
  std::uint32_t history_cut = 0;  // events that did not fit, oldest first
};
// `items`: the whole catalog; all identifiers must have the same length.
ExpectedGeneration expected_generation(const PromptForm& form, std::string_view model_version,
                                       const Profile& profile, std::span<const Item> items,
                                       const GenerateRequest& request, const ToyFamily& family);

ExpectedScores expected_scores(std::string_view model_version, const ScoreRequest& request,
                               const ToyFamily& family);

}  // namespace troupe::sim
