// Vector versions of realigning: rotates the cached keys of a block (RoPE), so that the block can
// be used at another position of a prompt. Works on whole vectors of pairs; the last few pairs of a
// key go through padded copies. Per pair of numbers 2 loads, 2 stores, 2 multiplications and 2
// fused ones; cosines and sines stay in the nearest cache, since all keys of a block share them.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/realign.cc"
#include "hwy/foreach_target.h"

#include <cstring>
#include <type_traits>

#include "kernels/cpu/versions/half_inl.h"
#include "kernels/operations/realign_versions.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

using TurnedFloats = hn::ScalableTag<float>;
inline constexpr std::size_t kTurnedLanes = hn::MaxLanes(TurnedFloats());

template <KvFormat kFormat>
using Stored = std::conditional_t<kFormat == KvFormat::f32, float, std::uint16_t>;

template <KvFormat kFormat>
HWY_INLINE hn::Vec<TurnedFloats> load_numbers(const Stored<kFormat>* from) {
  if constexpr (kFormat == KvFormat::f32)
    return hn::LoadU(TurnedFloats(), from);
  else
    return widen<kFormat>(TurnedFloats(), from);
}

template <KvFormat kFormat>
HWY_INLINE void store_numbers(hn::Vec<TurnedFloats> numbers, Stored<kFormat>* to) {
  if constexpr (kFormat == KvFormat::f32)
    hn::StoreU(numbers, TurnedFloats(), to);
  else
    narrow<kFormat>(TurnedFloats(), numbers, to);
}

// Rotates a vector of pairs, from in[0] and in[half] on.
template <KvFormat kFormat>
HWY_INLINE void rotate_pairs(const Stored<kFormat>* in, Stored<kFormat>* out, std::size_t half,
                             const float* cosines, const float* sines) {
  const TurnedFloats d;
  const auto c = hn::LoadU(d, cosines), s = hn::LoadU(d, sines);
  const auto x = load_numbers<kFormat>(in), y = load_numbers<kFormat>(in + half);
  store_numbers<kFormat>(hn::NegMulAdd(y, s, hn::Mul(x, c)), out);
  store_numbers<kFormat>(hn::MulAdd(x, s, hn::Mul(y, c)), out + half);
}

// Rotates `count` pairs, fewer than a vector has.
template <KvFormat kFormat>
HWY_INLINE void rotate_last(const Stored<kFormat>* in, Stored<kFormat>* out, std::size_t half,
                            std::size_t count, const float* cosines, const float* sines) {
  Stored<kFormat> numbers[2 * kTurnedLanes] = {};
  float c[kTurnedLanes] = {}, s[kTurnedLanes] = {};
  std::memcpy(c, cosines, count * sizeof(float));
  std::memcpy(s, sines, count * sizeof(float));
  std::memcpy(numbers, in, count * sizeof *in);
  std::memcpy(numbers + kTurnedLanes, in + half, count * sizeof *in);
  rotate_pairs<kFormat>(numbers, numbers, kTurnedLanes, c, s);
  std::memcpy(out, numbers, count * sizeof *in);
  std::memcpy(out + half, numbers + kTurnedLanes, count * sizeof *in);
}

template <KvFormat kFormat>
void rotate_keys(const std::byte* from, std::byte* to, std::size_t keys, std::size_t head_dim,
                 const float* cosines, const float* sines) {
  const auto* in = reinterpret_cast<const Stored<kFormat>*>(from);
  auto* out = reinterpret_cast<Stored<kFormat>*>(to);
  const std::size_t half = head_dim / 2;
  for (std::size_t k = 0; k < keys; ++k, in += head_dim, out += head_dim) {
    std::size_t i = 0;
    for (; i + kTurnedLanes <= half; i += kTurnedLanes)
      rotate_pairs<kFormat>(in + i, out + i, half, cosines + i, sines + i);
    if (i < half) rotate_last<kFormat>(in + i, out + i, half, half - i, cosines + i, sines + i);
  }
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const RealignVersion> realign_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_ENTRY(name, space, target)                                   \
  {name,                                                                    \
   {&space::rotate_keys<KvFormat::f32>, &space::rotate_keys<KvFormat::f16>, \
    &space::rotate_keys<KvFormat::bf16>},                                   \
   (here & (target)) != 0},
  static const RealignVersion versions[] = {TROUPE_TARGETS(TROUPE_ENTRY){
      "reference", {&reference::rotate_f32, &reference::rotate_f16, &reference::rotate_bf16}, true}};
#undef TROUPE_ENTRY
  return versions;
}

const RealignVersion& realigning() {
  static const RealignVersion& chosen = first_usable(realign_versions());
  return chosen;
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
