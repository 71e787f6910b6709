#pragma once
// The form of a model's prompts: the tokens that frame them, the arrangements under which its scores
// mean what they should, the limits of the model, and how a candidate's score is read.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/arrangement.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/request_options.h"

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
  // Arrangements under which the model's scores mean what they should, in order of preference; at
  // least one. The first one serves every request that names none. `history` and `towers`, of models
  // whose tokens are items, stand alone: their prompts have no frame.
  std::vector<Arrangement> arrangements = {Arrangement::causal};
  // Declared arrangements, the first among them, of which a policy may choose one per request: the
  // model's answers are equally good under each. Empty = the first alone.
  std::vector<Arrangement> interchangeable = {};
  // Features per token of models whose tokens are items. Arrangement `history`: 0 = none, 1 = the event's
  // action, 2 = its time and that of the next event, 3 = both times, then the action.
  std::uint32_t token_features = 0;
  // For models whose tokens are items: candidates are scored by their similarity to the state of the last
  // event, as the next item, and are no tokens of the prompt. A user without events has no such state.
  bool next_items = false;
  double temperature = 1;       // a similarity is the model's logit times the temperature
  bool searches_items = false;  // of such a model: it also finds the best items of the whole catalog
  bool whole_history = false;   // events depend on later ones: a history is one segment, not parts
  std::vector<Tower> towers = {};
  std::uint32_t scenarios = 1;  // scenarios that requests may name, counted from 0
  std::vector<std::string> tasks =
      {};  // Names of the values that are read per candidate; empty = one value without a name.
  // For generators: tokens over which a search normalises probabilities if the request does not say; never
  // by_model.
  Normalised normalised = Normalised::vocabulary;
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
  // Blank that precedes each text which becomes the tokens of an event or a candidate ("Document: {words}");
  // both become tokens together. "" = none.
  std::string words_lead = {};
  // The text of `item`. A query text and this text become tokens together. "" = `item` is not all text.
  std::string item_text = {};
  // position-independent blocks were computed behind the system prompt, not alone
  bool blocks_see_system = false;
  std::shared_ptr<const PrototypeSet> prototype_set = {};  // null = none
  std::uint32_t state = 0;                                 // numbers of a hidden state; 0 = none can be read

  bool declares(Arrangement arrangement) const {
    return std::ranges::find(arrangements, arrangement) != arrangements.end();
  }
  // Returns true if prompts of this form can have the arrangement, whether it is declared or not.
  bool can_have(Arrangement arrangement) const {
    if (items_are_tokens()) return declares(arrangement);
    if (arrangement == Arrangement::causal) return true;
    return !generates() && (arrangement == Arrangement::candidates_apart ||
                            arrangement == Arrangement::user_first || arrangement == Arrangement::item_first);
  }
  // Returns the arrangements of which a request that names none is served one.
  std::span<const Arrangement> served() const {
    return interchangeable.empty() ? std::span(arrangements).first(1) : std::span(interchangeable);
  }
  bool items_are_tokens() const { return declares(Arrangement::history) || declares(Arrangement::towers); }
  bool scores_each() const { return !score.empty(); }
  // Returns true if an item's score is the logit of its identifier.
  bool reads_identifiers() const { return !generates() && !scores_each() && !items_are_tokens(); }
  // Returns true if the hidden state of a last token stands for a text, or for a user's history.
  bool embeds() const { return state > 0 && !declares(Arrangement::towers); }
  std::size_t tasks_read() const { return tasks.empty() ? 1 : tasks.size(); }
  bool generates() const { return discriminant.empty() && !items_are_tokens() && !scores_each(); }
};

}  // namespace troupe
