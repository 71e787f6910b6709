// Vector versions of the elementwise kernels. All are memory-bound, so each makes one pass with
// whole vectors. The last few values of a row go through a padded copy, so that no instruction set
// reads past the row. Bytes per value: rms_norm and add_rows 8-12, rope 8 + 4 shared by the heads,
// swiglu and sigmoid_gate 12.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/elementwise.cc"
#include "hwy/foreach_target.h"

#include <cmath>
#include <cstring>

#include "kernels/cpu/versions/exponential_inl.h"
#include "kernels/operations/elementwise_versions.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;
inline constexpr std::size_t kLanes = hn::MaxLanes(Floats());

// Loads the first `count` floats at `from`, followed by zeros.
HWY_INLINE Vec load_first(const float* from, std::size_t count) {
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(Floats(), lanes);
}

HWY_INLINE void store_first(Vec value, float* to, std::size_t count) {
  HWY_ALIGN float lanes[kLanes];
  hn::Store(value, Floats(), lanes);
  std::memcpy(to, lanes, count * sizeof(float));
}

HWY_INLINE float sum_of_squares(const float* in, std::size_t width) {
  const Floats d;
  Vec even = hn::Zero(d), odd = hn::Zero(d);
  std::size_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    const Vec a = hn::LoadU(d, in + i), b = hn::LoadU(d, in + i + kLanes);
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  for (; i < width; i += kLanes) {
    const Vec a = i + kLanes <= width ? hn::LoadU(d, in + i) : load_first(in + i, width - i);
    even = hn::MulAdd(a, a, even);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
}

void rms_norm(const float* in, std::size_t in_stride, const float* weight, float epsilon, float* out,
              std::size_t out_stride, std::size_t rows, std::size_t width) {
  const Floats d;
  for (std::size_t r = 0; r < rows; ++r, in += in_stride, out += out_stride) {
    const Vec factor = hn::Set(d, 1 / std::sqrt(sum_of_squares(in, width) / float(width) + epsilon));
    std::size_t i = 0;
    for (; i + kLanes <= width; i += kLanes)
      hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, in + i), factor), hn::LoadU(d, weight + i)), d, out + i);
    if (const std::size_t rest = width - i)
      store_first(hn::Mul(hn::Mul(load_first(in + i, rest), factor), load_first(weight + i, rest)), out + i,
                  rest);
  }
}

// Rotates `half` pairs (first[i], second[i]).
HWY_INLINE void rotate(float* first, float* second, std::size_t half, const float* cosines,
                       const float* sines) {
  const Floats d;
  std::size_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Vec c = hn::LoadU(d, cosines + i), s = hn::LoadU(d, sines + i);
    const Vec x = hn::LoadU(d, first + i), y = hn::LoadU(d, second + i);
    hn::StoreU(hn::NegMulAdd(y, s, hn::Mul(x, c)), d, first + i);
    hn::StoreU(hn::MulAdd(x, s, hn::Mul(y, c)), d, second + i);
  }
  if (const std::size_t rest = half - i) {
    const Vec c = load_first(cosines + i, rest), s = load_first(sines + i, rest);
    const Vec x = load_first(first + i, rest), y = load_first(second + i, rest);
    store_first(hn::NegMulAdd(y, s, hn::Mul(x, c)), first + i, rest);
    store_first(hn::MulAdd(x, s, hn::Mul(y, c)), second + i, rest);
  }
}

void rope(float* values, std::size_t stride, std::size_t rows, std::size_t heads, std::size_t head_dim,
          const float* cosines, const float* sines) {
  const std::size_t half = head_dim / 2;
  for (std::size_t r = 0; r < rows; ++r, values += stride, cosines += half, sines += half)
    for (std::size_t h = 0; h < heads; ++h)
      rotate(values + h * head_dim, values + h * head_dim + half, half, cosines, sines);
}

// value / (1 + e^-gate). Below -87 the sigmoid is under 2e-38 and the product is taken as zero.
HWY_INLINE Vec gated(Vec gate, Vec value) {
  const Floats d;
  const Vec bounded = hn::Min(hn::Max(hn::Neg(gate), hn::Set(d, -87.0f)), hn::Set(d, 87.0f));
  const Vec product = hn::Div(value, hn::Add(hn::Set(d, 1.0f), exp_accurate(d, bounded)));
  return hn::IfThenZeroElse(hn::Lt(gate, hn::Set(d, -87.0f)), product);
}

// gate / (1 + e^-gate) * up.
HWY_INLINE Vec swiglu_of(Vec gate, Vec up) { return hn::Mul(gated(gate, gate), up); }

void swiglu(const float* gate_up, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
            std::size_t width) {
  const Floats d;
  for (std::size_t r = 0; r < rows; ++r, gate_up += in_stride, out += out_stride) {
    std::size_t i = 0;
    for (; i + kLanes <= width; i += kLanes)
      hn::StoreU(swiglu_of(hn::LoadU(d, gate_up + i), hn::LoadU(d, gate_up + width + i)), d, out + i);
    if (const std::size_t rest = width - i)
      store_first(swiglu_of(load_first(gate_up + i, rest), load_first(gate_up + width + i, rest)), out + i,
                  rest);
  }
}

void add_rows(const float* in, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
              std::size_t width) {
  const Floats d;
  for (std::size_t r = 0; r < rows; ++r, in += in_stride, out += out_stride) {
    std::size_t i = 0;
    for (; i + kLanes <= width; i += kLanes)
      hn::StoreU(hn::Add(hn::LoadU(d, out + i), hn::LoadU(d, in + i)), d, out + i);
    for (; i < width; ++i) out[i] += in[i];
  }
}

void sigmoid_gate(const float* in, std::size_t in_stride, const float* gate, float* out,
                  std::size_t out_stride, std::size_t rows, std::size_t width) {
  const Floats d;
  for (std::size_t r = 0; r < rows; ++r, in += in_stride, gate += out_stride, out += out_stride) {
    std::size_t i = 0;
    for (; i + kLanes <= width; i += kLanes)
      hn::StoreU(gated(hn::LoadU(d, gate + i), hn::LoadU(d, in + i)), d, out + i);
    if (const std::size_t rest = width - i)
      store_first(gated(load_first(gate + i, rest), load_first(in + i, rest)), out + i, rest);
  }
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const Elementwise> elementwise_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_ENTRY(name, space, target) \
  {name,                                  \
   &space::rms_norm,                      \
   &space::rope,                          \
   &space::swiglu,                        \
   &space::add_rows,                      \
   &space::sigmoid_gate,                  \
   (here & (target)) != 0},
  static const Elementwise versions[] = {
      TROUPE_TARGETS(TROUPE_ENTRY){"reference", &reference::rms_norm, &reference::rope, &reference::swiglu,
                                   &reference::add_rows, &reference::sigmoid_gate, true}};
#undef TROUPE_ENTRY
  return versions;
}

const Elementwise& elementwise() {
  static const Elementwise& chosen = first_usable(elementwise_versions());
  return chosen;
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
