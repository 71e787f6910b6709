#pragma once
// Moves a cached block to another position. Keys are stored as RoPE rotated them at the position
// where they were made. Rotations add up, R(q - p) R(p) = R(q), so a block made with its first
// token at p serves at q once all its keys are rotated by q - p: the same angles for every token,
// head and layer (Su et al. 2021, section 3.2.2; RcLLM, section III-C3, "Alignment"). Values do not
// depend on the position.
//
// A rotated key is the key that would have been computed at q, except for one more rounding to the
// pages' format. So rotate a block from the pages in which it was made, not from a rotated copy.
// Rotation does not change which tokens a key saw when it was made. The plan must account for that
// (RcLLM repairs it, section III-C2).
//
// Memory-bound: keys are read and written once, values too if the block moves to other pages; 3
// operations per number.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/operations/kv_layout.h"

namespace troupe::kernels {

// Rotation of keys that move by a distance: for each pair (i, i + head_dim/2) the cosine and sine
// of distance times frequency. Empty for a distance of 0, which changes no bit.
struct KeyRotation {
  std::vector<float> cosines, sines;
};
// `frequencies`: rope_frequencies of the model. `distance`: new position minus old, of either sign.
KeyRotation make_rotation(std::span<const double> frequencies, std::int64_t distance);

// Rotates dense keys of head_dim numbers, an even number, by head_dim/2 cosines and sines. `from`
// and `to` are equal or do not overlap.
using RotateKeys = void(const std::byte* from, std::byte* to, std::size_t keys, std::size_t head_dim,
                        const float* cosines, const float* sines);

struct RealignVersion {
  std::string_view name;     // "reference", "avx512", "avx2", …
  RotateKeys* of_format[3];  // [KvFormat]
  bool usable;               // on this CPU
};
std::span<const RealignVersion> realign_versions();  // the last is "reference"
const RealignVersion& realigning();                  // the best that this CPU can run

// One block. Each page of `to` is either the page of `from` with the same index, which is rotated
// in place, or a page that overlaps no page of `from`. The latter becomes a whole page, with values
// and, as in pages made by a pass, zeros behind the last token.
struct RealignTask {
  KvLayout layout;
  std::span<const std::byte* const> from;  // layout.pages_for(tokens)
  std::span<std::byte* const> to;          // as many as `from`
  std::uint32_t tokens = 0;
};
void realign(const RealignTask& task, const KeyRotation& rotation,
             const RealignVersion& version = realigning());

}  // namespace troupe::kernels
