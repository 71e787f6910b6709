#pragma once
// Device code that reads, rotates and writes keys in units of two neighbouring numbers of each half
// of a key, which are two pairs of a rotation (kernels/operations/realign.h).
#include <cstdint>

#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda::simt {

struct TwoPairs {
  float first[2], second[2];
};

// Loads words `word` and `words + word` of a key of 2 * words words.
template <class Half>
TROUPE_DEVICE TwoPairs load_pairs(const void* key, unsigned words, unsigned word) {
  const auto* const from = static_cast<const std::uint32_t*>(key);
  const std::uint32_t first = from[word], second = from[words + word];
  return {{low_of<Half>(first), high_of<Half>(first)}, {low_of<Half>(second), high_of<Half>(second)}};
}
template <class Half>
TROUPE_DEVICE void store_pairs(const TwoPairs& pairs, void* key, unsigned words, unsigned word) {
  auto* const to = static_cast<std::uint32_t*>(key);
  to[word] = pack<Half>(pairs.first[0], pairs.first[1]);
  to[words + word] = pack<Half>(pairs.second[0], pairs.second[1]);
}

// Rotates by `distance` positions; negative: backwards. `rotations`: [positions][2 * words] pairs
// of cosine and sine.
TROUPE_DEVICE TwoPairs rotated(const TwoPairs& x, const float* rotations, std::int32_t distance,
                               unsigned words, unsigned word) {
  if (distance == 0) return x;
  const auto row = static_cast<std::size_t>(distance < 0 ? -distance : distance);
  const float* const angles = rotations + (row * words + word) * 4;
  const float sign = distance < 0 ? -1.0f : 1.0f;
  TwoPairs y;
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    const float cosine = angles[2 * i], sine = sign * angles[2 * i + 1];
    y.first[i] = x.first[i] * cosine - x.second[i] * sine;
    y.second[i] = x.second[i] * cosine + x.first[i] * sine;
  }
  return y;
}

}  // namespace troupe::kernels::cuda::simt
