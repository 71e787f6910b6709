#pragma once
// Describes how the tokens of blocks at reused positions are repaired (RcLLM §III-C2): how many are
// computed again, which ones, and how the others are corrected. For a plan it builds the repair that the
// kernels compute (kernels/base/repair.h).
//
// Its text form follows a policy's name: "30:tail:mean:layer2". It is a number, then parts in any order,
// each at most once:
//
//   NUMBER             per cent of the reused tokens that are computed
//   :SELECTION         how they are chosen (By); left out: first
//   :historyNUMBER     the history has a budget of its own, of so many per cent; NUMBER is for items alone
//   :history-SELECTION how the history's budget is chosen; left out: as the items'. Only with historyNUMBER
//   :lambdaWEIGHT      weight of the deviation in `importance`: 0, or 0.000001 to 100; left out: 1. Only
//                      with a selection by importance
//   :mean :layer2 :windowNUMBER :prototypes    as the members of RepairChoice say
//
// RcLLM's rule, attention and the weighted deviation for the history and attention alone for items, is
// "30:attention:history20:history-importance:lambda0.5". A plan measures attention once, so of two budgets
// one cannot choose by tail while the other chooses by attention or importance.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe::router {

struct RepairChoice {
  enum class By : std::uint8_t {
    first,      // the first tokens of each block
    attention,  // tokens with most attention in the first layer
    tail,       // same, counting only attention from tokens after the last item
    deviation,  // tokens whose second-layer keys and values differ most from the block's (CacheBlend)
    importance  // attention and lambda times the deviation, each divided by its mean (RcLLM §III-C)
  };
  double share = 0;  // 0..1, of the tokens of all reused blocks together
  By by = By::first;
  bool mean = false;               // the other tokens are corrected by the mean difference of the chosen ones
  std::uint32_t exact_layers = 1;  // layers whose keys and values are exact for all tokens
  // 0..1, of the tokens of the history's blocks, if they have their own budget; `share` is then
  // only for items (the paper's r_hist and r_item). Negative = one common budget.
  double history = -1;
  // Sliding window: number of last reused tokens of the prompt that are always computed, beside the
  // chosen ones. The paper does not say where its window ends; ours ends at the tokens nearest to
  // where scores are read.
  std::uint32_t window = 0;
  // History blocks are made of prototypes where these replace its tokens; other history tokens are
  // computed.
  bool prototypes = false;
  std::optional<By> history_by = {};  // selection of the history's own budget; nullopt = `by`
  double lambda = 1;                  // weight of the deviation in `importance`

  double history_share() const { return history >= 0 ? history : share; }
  By history_selection() const { return history_by.value_or(by); }
  bool operator==(const RepairChoice&) const = default;
};
std::string_view name_of(RepairChoice::By by);
std::optional<RepairChoice::By> find_selection(std::string_view name);
std::string selection_of(const RepairChoice& repair);   // "tail", "attention, history importance*0.5"
std::string correction_of(const RepairChoice& repair);  // "none", "mean", "layer2", "mean+layer2"

// Formats a choice, with every part that differs from the default, in a fixed order.
std::string text_of(const RepairChoice& repair);
// Names what is wrong with a repair's text (`has "best"`), and what was expected in its place.
struct RepairFault {
  std::string what, expected;
};
std::variant<RepairChoice, RepairFault> read_repair(std::string_view text);

// Fills in the repair of a plan with reused spans; at most `left_max` of their tokens keep the
// block's values.
void write_repair(Plan& plan, const RepairChoice& choice, std::size_t left_max);

}  // namespace troupe::router
