#pragma once
// The form of a model's prompts: what frames them, what the model allows, and how a candidate's score is
// read.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe {

// Of models that read a history in several towers: the newest `events_max` of those events whose action (a
// feature of events) is at least `action_min`.
struct Tower {
  std::uint32_t events_max = 0;
  std::int64_t action_min = INT64_MIN;
};

// What stands for tokens of histories (RcLLM §III-B; kernels/decoder/prototypes.h), of one version of a
// model.
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
  // The one plan of models whose tokens are items: their prompts have no frame, and no policy chooses among
  // plans. Empty: prompts are framed.
  std::string_view history_plan = {};
  std::uint32_t token_features = 0;  // of each token of such plans
  std::vector<Tower> towers = {};
  std::uint32_t scenarios = 1;  // that requests may name, from 0
  std::vector<std::string> tasks =
      {};  // what is read of each candidate, by name; none: one number without a name
  // Of a generator, or of a model whose tokens are items: a history is kept as blocks of so many tokens and a
  // rest, so that one with new events at its end finds the others; 0: as one block.
  std::uint32_t history_part = 0;
  // Precede each event of a history, and each candidate, where they are told apart by what they are.
  Tokens event, item;
  // Of rankers that score each candidate behind its own tokens, not at a discriminant: these follow it, and
  // its score is the logit of `yes` less that of `no` at the last of them.
  Tokens score;
  Token yes = 0, no = 0;
  bool blocks_see_system =
      false;  // blocks that stand anywhere were computed behind the system prompt, not alone
  std::shared_ptr<const StandIns> stand_ins = {};  // null: there are none

  bool scores_each() const { return !score.empty(); }
  std::size_t tasks_read() const { return tasks.empty() ? 1 : tasks.size(); }
  bool generates() const { return discriminant.empty() && history_plan.empty() && !scores_each(); }
};

}  // namespace troupe
