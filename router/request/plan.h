#pragma once
// The plans of one ranking request (BAT §4.2), built from its features: which segments, where they start,
// what they see, and under which name each may be reused.
//   user prefix: sys → user → items (all start after the user) → instruction → discriminant
//   item prefix: sys → items (all start after sys) → user (after the longest item) → instruction →
//   discriminant
#include <span>
#include <string>
#include <vector>

#include "placement/cost/work.h"
#include "runtime/actor/block_name.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

// The tokens that frame every prompt of a model, and what the model allows.
struct PromptForm {
  std::vector<Token> system, user, instruction, discriminant;  // `user` precedes the history's tokens
  std::uint32_t positions_max = 0;
  std::uint32_t vocabulary = 0;
};

enum class Prefix : std::uint8_t {
  none,
  user,
  item
};  // which blocks may be reused; none: the user plan, all computed

struct RankPlan {
  Plan plan;                          // one readout: the discriminant token over the candidates' identifier rows
  std::vector<SegmentBlock> blocks;   // one per segment
  std::uint32_t history_cut = 0;         // events dropped, oldest first
};

std::size_t item_tokens_max(std::span<const ItemView> items);  // 0 if there are none
// Positions that a prompt with this longest item and no history takes.
std::size_t positions_without_history(const PromptForm& form, std::size_t item_tokens_max);

// The newest events that fit; `cut` counts the dropped ones. `item_tokens_max`: the longest candidate.
struct FittedHistory {
  std::vector<Token> tokens;  // form.user + history
  std::uint32_t cut = 0;
};
FittedHistory fit_history(const PromptForm& form, const Profile& profile, std::size_t item_tokens_max);

// The key under which this user is known to the cache: tenant and user, told apart by the tenant's length.
std::string user_key(std::string_view tenant, std::string_view user);

BlockName system_block(const PromptForm& form, const NameContext& context);
BlockName item_block(const PromptForm& form, const NameContext& context, std::span<const Token> tokens);
BlockName user_block(const PromptForm& form, const NameContext& context, std::string_view tenant,
                     std::span<const Token> user_tokens);

RankPlan rank_plan(const PromptForm& form, const NameContext& context, Prefix prefix, std::string_view tenant,
                   std::string_view user, const FittedHistory& history, std::span<const ItemView> items);

// Scores of label tokens after query + item (the plan "candidates" of segments.md): the query once, each item
// after it, read at its last token. Such blocks belong to one request only, so none has a name.
Execute score_plan(const ScoreRequest& request);
placement::Work score_work(const placement::UnitCosts& costs, const ScoreRequest& request);

}  // namespace troupe::router
