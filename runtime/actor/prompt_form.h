#pragma once
// The form of a model's prompts: the tokens that frame them, the limits of the model, and how a
// candidate's score is read.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe {

// A tower of a model that reads a history in several towers. It sees the newest `events_max` events
// whose action (a feature of events) is at least `action_min`.
struct Tower {
  std::uint32_t events_max = 0;
  std::int64_t action_min = INT64_MIN;
};

// Prototypes that stand in for tokens of histories (RcLLM §III-B; kernels/decoder/prototypes.h),
// for one model version.
class PrototypeSet {
 public:
  virtual ~PrototypeSet() = default;
  virtual bool has_prototype(Token token, std::uint32_t position) const = 0;  // position in the prompt
  virtual const std::string& checksum() const = 0;
  virtual const std::string& model_version() const = 0;
};

// The tokens that frame every prompt of a model, and the limits of the model. A ranker reads its
// scores at a discriminant; a generator's prompt has none, since it is asked what follows the
// history.
struct PromptForm {
  Tokens system, user, instruction, discriminant;  // `user` precedes the history's tokens
  std::uint32_t positions_max = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t events_max = 0;  // newest events of a history that are read; 0 = all that fit
  // The only plan of models whose tokens are items: their prompts have no frame, and no policy
  // chooses among plans. Empty = prompts are framed.
  std::string_view history_plan = {};
  std::uint32_t token_features = 0;  // features per token of such plans
  std::vector<Tower> towers = {};
  std::uint32_t scenarios = 1;  // scenarios that requests may name, counted from 0
  std::vector<std::string> tasks =
      {};  // Names of the values that are read per candidate; empty = one value without a name.
  // For generators and models whose tokens are items: a history is stored as blocks of this many
  // tokens and a remainder, so that a history with new events at its end finds its earlier blocks.
  // 0 = as one block.
  std::uint32_t history_part = 0;
  // Tokens before each event of a history and before each candidate, for models that mark them as
  // such.
  Tokens event, item;
  // For rankers that score each candidate behind its own tokens, not at a discriminant: these
  // tokens follow it, and its score is the logit of `yes` less that of `no` at the last of them.
  Tokens score;
  Token yes = 0, no = 0;
  // position-independent blocks were computed behind the system prompt, not alone
  bool blocks_see_system = false;
  std::shared_ptr<const PrototypeSet> prototype_set = {};  // null = none

  bool scores_each() const { return !score.empty(); }
  std::size_t tasks_read() const { return tasks.empty() ? 1 : tasks.size(); }
  bool generates() const { return discriminant.empty() && history_plan.empty() && !scores_each(); }
};

}  // namespace troupe
