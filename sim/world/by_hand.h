#pragma once
// What a model has to make of a request, written down once more for each kind of plan: value by value on the
// toy model, with nothing cached and nothing shared with who builds plans in the cluster. A mistake there (a
// segment that starts at the wrong place, sees too much or is read at the wrong token) gives other numbers
// here.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "router/request/plans.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"
#include "runtime/actor/prompt_form.h"
#include "sim/world/toy_model.h"

namespace troupe::sim {

struct RankingByHand {
  std::vector<double> scores;     // of the items, in their order
  std::uint32_t tokens = 0;       // of the whole prompt
  std::uint32_t history_cut = 0;  // events that had no room, oldest first
  double approximate = 0;         // share of the prompt's tokens
};
// How much of a plan with blocks is repaired: what the policy says, and most of the prompt that may be left.
struct RepairAsked {
  router::RepairChoice choice;  // not by the first tokens
  double approximate_max = 1;
};
// Nothing if the plan is neither "user" nor "item" (BAT §4.2) nor "causal", "blocks" or "all_blocks".
std::optional<RankingByHand> rank_by_hand(const PromptForm& form, std::string_view model_version,
                                          std::string_view plan, const Profile& profile,
                                          std::span<const Item> items, const ToyFamily& family,
                                          const RepairAsked& repair = {});

struct ScoresByHand {
  std::vector<ScoreRow> items;
  std::uint32_t tokens = 0;
};

struct GenerationByHand {
  std::vector<GeneratedItem> items;
  std::uint32_t width = 0;        // that was searched with
  std::uint32_t asked_for = 0;    // items
  std::uint32_t tokens = 0;       // of the whole prompt
  std::uint32_t history_cut = 0;  // events that had no room, oldest first
};
// `items`: all of the catalog, whose identifiers are all of one length.
GenerationByHand generate_by_hand(const PromptForm& form, std::string_view model_version,
                                  const Profile& profile, std::span<const Item> items,
                                  const GenerateRequest& request, const ToyFamily& family);

ScoresByHand score_by_hand(std::string_view model_version, const ScoreRequest& request,
                           const ToyFamily& family);

}  // namespace troupe::sim
