// Vector versions of SiLU, of GELU and of the gated norm: whole vectors; the last few values of a row go
// through a padded copy. The norm reads its row three times, from the first-level cache after the
// first. Bytes per value: silu and gelu 8, norm 8 to 20.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/gate.cc"
#include "hwy/foreach_target.h"

#include <cmath>
#include <cstring>

#include "kernels/cpu/versions/exponential_inl.h"
#include "kernels/operations/gate.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

using GateTag = hn::ScalableTag<float>;
using GateVec = hn::Vec<GateTag>;
inline constexpr std::size_t kGateLanes = hn::MaxLanes(GateTag());

// z / (1 + e^-z). Below -87 the quotient is under 2e-36 and taken as zero.
HWY_INLINE GateVec gate_silu(GateVec z) {
  const GateTag d;
  const GateVec bounded = hn::Min(hn::Max(hn::Neg(z), hn::Set(d, -87.0f)), hn::Set(d, 87.0f));
  const GateVec silu = hn::Div(z, hn::Add(hn::Set(d, 1.0f), exp_accurate(d, bounded)));
  return hn::IfThenZeroElse(hn::Lt(z, hn::Set(d, -87.0f)), silu);
}

HWY_INLINE GateVec gate_load(const float* from, std::size_t left) {
  const GateTag d;
  if (left >= kGateLanes) return hn::LoadU(d, from);
  HWY_ALIGN float lanes[kGateLanes] = {};
  std::memcpy(lanes, from, left * sizeof(float));
  return hn::Load(d, lanes);
}

HWY_INLINE void gate_store(GateVec value, float* to, std::size_t left) {
  const GateTag d;
  if (left >= kGateLanes) return hn::StoreU(value, d, to);
  HWY_ALIGN float lanes[kGateLanes];
  hn::Store(value, d, lanes);
  std::memcpy(to, lanes, left * sizeof(float));
}

void silu_rows(float* values, std::size_t stride, std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r, values += stride)
    for (std::size_t i = 0; i < width; i += kGateLanes)
      gate_store(gate_silu(gate_load(values + i, width - i)), values + i, width - i);
}

// z / 2 * (1 + erf(z / sqrt(2))). The tail 1 - erf(x) for x >= 0 is e^(-x * x) times a polynomial in
// 1 / (1 + p x) (Abramowitz and Stegun 7.1.26), off by less than 1.5e-7. Beyond |z| of 12 it is zero.
HWY_INLINE GateVec gate_gelu(GateVec z) {
  const GateTag d;
  const GateVec one = hn::Set(d, 1.0f);
  const GateVec x = hn::Mul(hn::Abs(z), hn::Set(d, 0.70710678f));
  const GateVec t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3275911f), x, one));
  GateVec p = hn::Set(d, 1.061405429f);
  p = hn::MulAdd(p, t, hn::Set(d, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
  const GateVec bounded = hn::Min(x, hn::Set(d, 8.5f));
  const GateVec tail = hn::Mul(hn::Mul(p, t), exp_accurate(d, hn::Neg(hn::Mul(bounded, bounded))));
  const GateVec half = hn::Mul(hn::Set(d, 0.5f), z);
  // z * (1 - tail / 2) for z > 0, z * tail / 2 otherwise; NaN takes the second and stays NaN.
  return hn::IfThenElse(hn::Gt(z, hn::Zero(d)), hn::NegMulAdd(half, tail, z), hn::Mul(half, tail));
}

void gelu_rows(float* values, std::size_t stride, std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r, values += stride)
    for (std::size_t i = 0; i < width; i += kGateLanes)
      gate_store(gate_gelu(gate_load(values + i, width - i)), values + i, width - i);
}

HWY_INLINE float gate_mean(const float* in, std::size_t width) {
  const GateTag d;
  GateVec even = hn::Zero(d), odd = hn::Zero(d);
  for (std::size_t i = 0; i < width; i += 2 * kGateLanes) {
    even = hn::Add(even, gate_load(in + i, width - i));
    if (i + kGateLanes < width) odd = hn::Add(odd, gate_load(in + i + kGateLanes, width - i - kGateLanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd))) / float(width);
}

HWY_INLINE float gate_variance(const float* in, std::size_t width, float mean) {
  const GateTag d;
  const GateVec middle = hn::Set(d, mean);
  GateVec sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kGateLanes <= width; i += kGateLanes) {
    const GateVec off = hn::Sub(hn::LoadU(d, in + i), middle);
    sum = hn::MulAdd(off, off, sum);
  }
  float rest = 0;
  for (; i < width; ++i) rest += (in[i] - mean) * (in[i] - mean);
  return (hn::GetLane(hn::SumOfLanes(d, sum)) + rest) / float(width);
}

void norm_rows(const NormTask& task) {
  const GateTag d;
  for (std::size_t r = 0; r < task.rows; ++r) {
    const float* const in = task.in + r * task.in_stride;
    const float* const gate = task.gate + (task.gate == nullptr ? 0 : r * task.gate_stride);
    const float mean = gate_mean(in, task.width);
    const GateVec middle = hn::Set(d, mean);
    const GateVec factor = hn::Set(d, 1 / std::sqrt(gate_variance(in, task.width, mean) + task.epsilon));
    for (std::size_t i = 0; i < task.width; i += kGateLanes) {
      const std::size_t left = task.width - i;
      GateVec value = hn::Mul(hn::Sub(gate_load(in + i, left), middle), factor);
      if (task.weight != nullptr) value = hn::Mul(value, gate_load(task.weight + i, left));
      if (task.bias != nullptr) value = hn::Add(value, gate_load(task.bias + i, left));
      if (task.gate != nullptr) value = hn::Mul(value, gate_load(gate + i, left));
      gate_store(value, task.out + r * task.out_stride + i, left);
    }
  }
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const Gates> gate_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_ENTRY(name, space, target) \
  {name, &space::silu_rows, &space::gelu_rows, &space::norm_rows, (here & (target)) != 0},
  static const Gates versions[] = {TROUPE_TARGETS(TROUPE_ENTRY){
      "reference", &silu_rows_reference, &gelu_rows_reference, &norm_rows_reference, true}};
#undef TROUPE_ENTRY
  return versions;
}

const Gates& gates() {
  static const Gates& chosen = first_usable(gate_versions());
  return chosen;
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
