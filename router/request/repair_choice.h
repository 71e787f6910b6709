#pragma once
// How the tokens of blocks that stand where they were not made are repaired (RcLLM §III-C2): how many are
// computed all the same, which, and what is done about the others. It has a text form, which stands behind a
// policy's name; and of a plan it makes the repair that the kernels compute (kernels/base/repair.h).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/actor/messages.h"

namespace troupe::router {

struct RepairChoice {
  enum class By : std::uint8_t {
    first,      // the first of each block
    attention,  // those that receive most attention in the first layer
    tail,       // the same, of what comes behind the last item only
    deviation,  // those whose keys and values of the second layer are furthest from the block's (CacheBlend)
    importance  // attention and deviation, each over its mean (RcLLM §III-C)
  };
  double share = 0;  // 0..1, of the tokens of all reused blocks together
  By by = By::first;
  bool mean = false;               // the others are corrected by what the chosen ones differ, in the mean
  std::uint32_t exact_layers = 1;  // whose keys and values are exact for all tokens
  // 0..1, of the tokens of the history's blocks, where they have a budget of their own and `share` is of the
  // items' (the paper's r_hist and r_item); negative: there is one budget.
  double history = -1;
  // The sliding window: so many of the last reused tokens of the prompt are computed in any case, beside
  // those that are chosen. The paper does not say of what its window is the end; what is nearest to where
  // scores are read is ours.
  std::uint32_t window = 0;
  // Of the history blocks are made of prototypes, where these stand for its tokens; the others are computed.
  bool prototypes = false;

  double history_share() const { return history >= 0 ? history : share; }
  bool operator==(const RepairChoice&) const = default;
};
std::string_view name_of(RepairChoice::By by);
std::optional<RepairChoice::By> find_selection(std::string_view name);
std::string correction_of(const RepairChoice& repair);  // "none", "mean", "layer2", "mean+layer2"

// "30:tail:mean:layer2:history20:window64:prototypes": per cent, then what is not as without a word, in any
// order.
std::string text_of(const RepairChoice& repair);
std::optional<RepairChoice> parse_repair(std::string_view text);

// Fills in the repair of a plan that has its places, with at most `left_max` of their tokens left to blocks.
void write_repair(Plan& plan, const RepairChoice& choice, std::size_t left_max);

}  // namespace troupe::router
