#pragma once
// What frames every prompt of a model, and how much of a user's history fits into it.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

// Of models that read a history in several towers: the newest `events_max` of those events whose action (a feature of events)
// is at least `action_min`.
struct Tower {
  std::uint32_t events_max = 0;
  std::int64_t action_min = INT64_MIN;
};
// Numbers of a tower's events, ascending; one action for each event.
std::vector<std::uint32_t> tower_events(const Tower& tower, std::span<const std::int64_t> actions);

// What stands for tokens of histories (RcLLM §III-B; kernels/decoder/prototypes.h), of one version of a model.
class StandIns {
 public:
  virtual ~StandIns() = default;
  virtual bool stands_for(Token token, std::uint32_t position) const = 0;  // of the prompt
  virtual const std::string& checksum() const = 0;
  virtual const std::string& model_version() const = 0;
};

// The tokens that frame every prompt of a model, and what the model allows. A ranker reads its scores at a
// discriminant; a generator's prompt has none: what follows the history is what it is asked for.
struct PromptForm {
  Tokens system, user, instruction, discriminant;  // `user` precedes the history's tokens
  std::uint32_t positions_max = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t events_max = 0;  // of a history that are read, the newest; 0: all that fit
  // The one plan of models whose tokens are items: their prompts have no frame, and no policy chooses among plans.
  // Empty: prompts are framed.
  std::string_view history_plan = {};
  std::uint32_t token_features = 0;  // of each token of such plans
  std::vector<Tower> towers = {};
  std::uint32_t scenarios = 1;             // that requests may name, from 0
  std::vector<std::string> tasks = {};     // what is read of each candidate, by name; none: one number without a name
  // Of a generator, or of a model whose tokens are items: a history is kept as blocks of so many tokens and a rest, so
  // that one with new events at its end finds the others; 0: as one block.
  std::uint32_t history_part = 0;
  // Precede each event of a history, and each candidate, where they are told apart by what they are.
  Tokens event, item;
  // Of rankers that score each candidate behind its own tokens, not at a discriminant: these follow it, and its score
  // is the logit of `yes` less that of `no` at the last of them.
  Tokens score;
  Token yes = 0, no = 0;
  bool blocks_see_system = false;  // blocks that stand anywhere were computed behind the system prompt, not alone
  std::shared_ptr<const StandIns> stand_ins = {};  // null: there are none

  bool scores_each() const { return !score.empty(); }
  std::size_t tasks_read() const { return tasks.empty() ? 1 : tasks.size(); }
  bool generates() const { return discriminant.empty() && history_plan.empty() && !scores_each(); }
};

std::size_t item_tokens_max(std::span<const ItemView> items);  // 0 if there are none
// Positions that a prompt takes whose items take so many, without any history.
std::size_t positions_without_history(const PromptForm& form, std::size_t item_positions);

// The newest events that fit beside such items, or from the oldest on that a tower reads; `cut` counts the dropped ones.
struct FittedHistory {
  Tokens tokens;  // form.user + history, form.event before each event
  std::vector<std::uint32_t> events;  // tokens of each, with what precedes it
  std::uint32_t cut = 0;
  std::vector<Feature> features = {};  // of the events that are kept
};
FittedHistory fit_history(const PromptForm& form, const Profile& profile, std::size_t item_positions);

}  // namespace troupe::router
