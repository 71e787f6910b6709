#pragma once
// A cached block at another position. Keys are stored as RoPE left them at the position where they were made.
// Rotations add up, R(q - p) R(p) = R(q), so a block made where its first token stood at p serves at q once
// all its keys are turned by q - p: the same angles for every token, head and layer (Su et al. 2021,
// section 3.2.2; RcLLM, section III-C3, "Alignment"). Values know no position.
//
// A turned key is the key that would have been computed at q, but for one more rounding to the pages' format.
// So turn a block from the pages in which it was made, not from a copy that was turned before. What its
// tokens saw when they were made stays as it was: that is for the plan to judge (RcLLM repairs it, section
// III-C2).
//
// Memory-bound: keys are read and written once, values too where the block moves to other pages; 3 operations
// a number.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/operations/kv_layout.h"

namespace troupe::kernels {

// By how much keys turn when they move by some positions: for each pair (i, i + head_dim/2) the cosine and
// sine of distance times frequency. Empty for a distance of 0, which changes no bit.
struct Turn {
  std::vector<float> cosines, sines;
};
// `frequencies`: rope_frequencies of the model. `distance`: new position minus old, of either sign.
Turn make_turn(std::span<const double> frequencies, std::int64_t distance);

// Dense keys of head_dim numbers, an even number, turned by head_dim/2 cosines and sines. The two places are
// the same, or apart.
using TurnKeys = void(const std::byte* from, std::byte* to, std::size_t keys, std::size_t head_dim,
                      const float* cosines, const float* sines);

struct RealignVersion {
  std::string_view name;   // "reference", "avx512", "avx2", …
  TurnKeys* of_format[3];  // by KvFormat
  bool usable;             // on this CPU
};
std::span<const RealignVersion> realign_versions();  // the last is "reference"
const RealignVersion& realigning();                  // the best that this CPU can run

// One block. Each page of `to` is the page of `from` with its number, which is then turned in place, or
// another one that overlaps no page of `from`: it becomes a whole page, with values, and with zeros behind
// the last token as pages have them that are made by a pass.
struct RealignTask {
  KvLayout layout;
  std::span<const std::byte* const> from;  // layout.pages_for(tokens)
  std::span<std::byte* const> to;          // as many
  std::uint32_t tokens = 0;
};
void realign(const RealignTask& task, const Turn& turn, const RealignVersion& version = realigning());

}  // namespace troupe::kernels
