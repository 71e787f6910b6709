// Rotates cached keys to another position in double, pair by pair; faster versions are tested
// against it.
#include "kernels/base/float_formats.h"
#include "kernels/operations/realign_versions.h"

namespace troupe::kernels::reference {
namespace {

template <class Number, class Widen, class Round>
void rotation(const std::byte* from, std::byte* to, std::size_t keys, std::size_t head_dim,
              const float* cosines, const float* sines, Widen widen, Round round) {
  const auto* in = reinterpret_cast<const Number*>(from);
  auto* out = reinterpret_cast<Number*>(to);
  const std::size_t half = head_dim / 2;
  for (std::size_t k = 0; k < keys; ++k, in += head_dim, out += head_dim)
    for (std::size_t i = 0; i < half; ++i) {
      const double c = cosines[i], s = sines[i], first = widen(in[i]), second = widen(in[half + i]);
      out[i] = round(static_cast<float>(first * c - second * s));
      out[half + i] = round(static_cast<float>(second * c + first * s));
    }
}

}  // namespace

void rotate_f32(const std::byte* from, std::byte* to, std::size_t keys, std::size_t head_dim,
                const float* cosines, const float* sines) {
  const auto same = [](float number) { return number; };
  rotation<float>(from, to, keys, head_dim, cosines, sines, same, same);
}
void rotate_f16(const std::byte* from, std::byte* to, std::size_t keys, std::size_t head_dim,
                const float* cosines, const float* sines) {
  rotation<std::uint16_t>(from, to, keys, head_dim, cosines, sines, from_f16, to_f16);
}
void rotate_bf16(const std::byte* from, std::byte* to, std::size_t keys, std::size_t head_dim,
                 const float* cosines, const float* sines) {
  rotation<std::uint16_t>(from, to, keys, head_dim, cosines, sines, from_bf16, to_bf16);
}

}  // namespace troupe::kernels::reference
