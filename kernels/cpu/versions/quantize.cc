// Vector versions of the quantising kernels. Quantising a row reads it twice (the second time from
// the nearest cache) and writes a quarter of it; per value 3 operations to find its range, 2 to
// scale and round, under 1 to pack. Dequantising reads and writes 4 bytes per value, with 7
// operations, and shares the columns' numbers among four rows. Where bytes are made, no product is
// followed by a sum, so no compiler can fuse them and round differently.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/quantize.cc"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "kernels/operations/quantize_versions.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::ScalableTag<std::int32_t>;
using Bytes = hn::ScalableTag<std::uint8_t>;
using Vec = hn::Vec<Floats>;
using IntVec = hn::Vec<Ints>;
using ShortVec = hn::Vec<hn::ScalableTag<std::int16_t>>;
inline constexpr std::size_t kLanes = hn::MaxLanes(Floats());
inline constexpr std::size_t kGroup = 4 * kLanes;  // floats that fill one vector of bytes

// Rounds to the nearest integer, ties to even. The x86 forms skip Highway's handling of values
// beyond int32.
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE IntVec nearest(Vec v) { return IntVec{_mm512_cvtps_epi32(v.raw)}; }
HWY_INLINE hn::Vec<Bytes> pack(ShortVec a, ShortVec b) {
  return hn::Vec<Bytes>{_mm512_packus_epi16(a.raw, b.raw)};
}
#elif HWY_TARGET <= HWY_AVX2
HWY_INLINE IntVec nearest(Vec v) { return IntVec{_mm256_cvtps_epi32(v.raw)}; }
HWY_INLINE hn::Vec<Bytes> pack(ShortVec a, ShortVec b) {
  return hn::Vec<Bytes>{_mm256_packus_epi16(a.raw, b.raw)};
}
#elif HWY_ARCH_X86
HWY_INLINE IntVec nearest(Vec v) { return IntVec{_mm_cvtps_epi32(v.raw)}; }
HWY_INLINE hn::Vec<Bytes> pack(ShortVec a, ShortVec b) {
  return hn::Vec<Bytes>{_mm_packus_epi16(a.raw, b.raw)};
}
#else
HWY_INLINE IntVec nearest(Vec v) { return hn::NearestInt(v); }
HWY_INLINE hn::Vec<Bytes> pack(ShortVec a, ShortVec b) {
  const hn::Half<Bytes> half;
  return hn::Combine(Bytes(), hn::DemoteTo(half, b), hn::DemoteTo(half, a));
}
#endif

// Returns the bytes of four vectors of integers, each plus `zero`, clamped to 0..255, in order.
// Packing works within blocks of 128 bits, so it leaves runs of four bytes, of vector v and block b
// at index 4 * b + v; a last step puts them in order.
HWY_INLINE hn::Vec<Bytes> bytes_of(IntVec a, IntVec b, IntVec c, IntVec d, ShortVec zero) {
  const hn::ScalableTag<std::int16_t> shorts;
  const hn::ScalableTag<std::uint32_t> runs;
  const auto packed = pack(hn::Add(hn::ReorderDemote2To(shorts, a, b), zero),
                           hn::Add(hn::ReorderDemote2To(shorts, c, d), zero));
  if constexpr (kLanes == 4) {
    return packed;
  } else {
    constexpr std::size_t blocks = kLanes / 4;
    HWY_ALIGN std::int32_t from[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) from[i] = static_cast<std::int32_t>(i % blocks * 4 + i / blocks);
    return hn::BitCast(Bytes(),
                       hn::TableLookupLanes(hn::BitCast(runs, packed), hn::SetTableIndices(runs, from)));
  }
}

// The least and the greatest value of a row, 0 included, and whether all are finite.
struct Range {
  float low, high;
  bool finite;
};

// Reads four vectors at a time, each with its own least and greatest, so that none waits for the
// one before.
HWY_INLINE Range range_of(const float* in, std::size_t width) {
  const Floats d;
  const Vec zero = hn::Zero(d);
  Vec low[4] = {zero, zero, zero, zero}, high[4] = {zero, zero, zero, zero};
  Vec nothing[4] = {zero, zero, zero, zero};  // 0, or NaN once a value is not finite
  const auto group = [&](const float* from) HWY_ATTR {
    for (std::size_t v = 0; v < 4; ++v) {
      const Vec x = hn::LoadU(d, from + v * kLanes);
      low[v] = hn::Min(low[v], x);
      high[v] = hn::Max(high[v], x);
      nothing[v] = hn::MulAdd(x, zero, nothing[v]);
    }
  };
  std::size_t i = 0;
  for (; i + kGroup <= width; i += kGroup) group(in + i);
  if (const std::size_t rest = width - i) {
    float padded[kGroup] = {};
    std::memcpy(padded, in + i, rest * sizeof(float));
    group(padded);
  }
  const auto of_four = [](const Vec(&v)[4], auto join)
                           HWY_ATTR { return join(join(v[0], v[1]), join(v[2], v[3])); };
  const Vec least = of_four(low, [](Vec a, Vec b) HWY_ATTR { return hn::Min(a, b); });
  const Vec greatest = of_four(high, [](Vec a, Vec b) HWY_ATTR { return hn::Max(a, b); });
  const Vec nought = of_four(nothing, [](Vec a, Vec b) HWY_ATTR { return hn::Add(a, b); });
  return {hn::GetLane(hn::MinOfLanes(d, least)), hn::GetLane(hn::MaxOfLanes(d, greatest)),
          hn::AllTrue(d, hn::Eq(nought, zero))};
}

HWY_INLINE void quantize_row(const float* in, std::uint8_t* out, float inverse, std::int32_t zero,
                             std::size_t width) {
  const Floats d;
  const Vec factor = hn::Set(d, inverse);
  const ShortVec zeros = hn::Set(hn::ScalableTag<std::int16_t>(), static_cast<std::int16_t>(zero));
  const auto group = [&](const float* from) HWY_ATTR {
    const IntVec a = nearest(hn::Mul(hn::LoadU(d, from), factor)),
                 b = nearest(hn::Mul(hn::LoadU(d, from + kLanes), factor)),
                 c = nearest(hn::Mul(hn::LoadU(d, from + 2 * kLanes), factor)),
                 e = nearest(hn::Mul(hn::LoadU(d, from + 3 * kLanes), factor));
    return bytes_of(a, b, c, e, zeros);
  };
  std::size_t i = 0;
  for (; i + kGroup <= width; i += kGroup) hn::StoreU(group(in + i), Bytes(), out + i);
  if (const std::size_t rest = width - i) {
    float padded[kGroup] = {};
    std::uint8_t bytes[kGroup];
    std::memcpy(padded, in + i, rest * sizeof(float));
    hn::StoreU(group(padded), Bytes(), bytes);
    std::memcpy(out + i, bytes, rest);
  }
}

// Finds the ranges of up to four rows before it makes the bytes of any: a range is followed by a
// chain of divisions, and those of four rows overlap.
void quantize_rows(const float* in, std::size_t in_stride, std::uint8_t* out, RowScale* scales,
                   std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; r += 4) {
    const std::size_t count = std::min<std::size_t>(4, rows - r);
    float inverses[4];
    for (std::size_t i = 0; i < count; ++i) {
      const Range range = range_of(in + (r + i) * in_stride, width);
      const float scale = range.high / 255 - range.low / 255;
      const bool counts = range.finite && scale >= quantize_scale_min;
      inverses[i] = counts ? 1 / scale : 0;
      scales[r + i].scale = counts ? scale : range.finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
      const float zero = counts ? -range.low * inverses[i] : 0;
      scales[r + i].zero = hn::GetLane(nearest(hn::Set(Floats(), zero)));
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (inverses[i] == 0)
        std::fill_n(out + (r + i) * width, width, std::uint8_t{0});
      else
        quantize_row(in + (r + i) * in_stride, out + (r + i) * width, inverses[i], scales[r + i].zero, width);
    }
  }
}

// Runs when a model is loaded: one vector at a time, the last through a padded copy.
void quantize_weights(const float* in, std::size_t in_stride, std::int8_t* out, float* scales,
                      std::int32_t* sums, std::size_t rows, std::size_t width, std::int32_t limit) {
  const Floats d;
  const hn::Rebind<std::int8_t, Floats> bytes;
  for (std::size_t r = 0; r < rows; ++r, in += in_stride, out += width) {
    const Range range = range_of(in, width);
    const float scale = std::max(range.high, -range.low) / float(limit);
    const bool counts = range.finite && scale >= quantize_scale_min;
    scales[r] = counts ? scale : range.finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    sums[r] = 0;
    if (!counts) {
      std::fill_n(out, width, std::int8_t{0});
      continue;
    }
    const Vec factor = hn::Set(d, 1 / scale);
    IntVec sum = hn::Zero(Ints());
    for (std::size_t i = 0; i < width; i += kLanes) {
      const std::size_t count = std::min(kLanes, width - i);
      float values[kLanes] = {};
      std::int8_t steps[kLanes];
      std::memcpy(values, in + i, count * sizeof(float));
      const IntVec step = nearest(hn::Mul(hn::LoadU(d, values), factor));
      sum = hn::Add(sum, step);
      hn::StoreU(hn::DemoteTo(bytes, step), bytes, steps);
      std::memcpy(out + i, steps, count);
    }
    sums[r] = hn::GetLane(hn::SumOfLanes(Ints(), sum));
  }
}

// (sum - zero * column sum) * column scale * row scale + bias, lane by lane.
HWY_INLINE Vec value_of(Vec sum_bits, IntVec zero, Vec row_scale, IntVec column_sum, Vec column_scale,
                        Vec bias) {
  const IntVec sum = hn::BitCast(Ints(), sum_bits);
  const Vec centred = hn::ConvertTo(Floats(), hn::Sub(sum, hn::Mul(zero, column_sum)));
  return hn::MulAdd(hn::Mul(centred, column_scale), row_scale, bias);
}

// Whole vectors of `kRows` rows, each of the columns' vectors loaded once for all of them.
template <std::size_t kRows>
HWY_INLINE void dequantize_vectors(float* values, std::size_t stride, const RowScale* row_scales,
                                   ColumnScales columns, std::size_t width) {
  const Floats d;
  Vec scale[kRows];
  IntVec zero[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    scale[r] = hn::Set(d, row_scales[r].scale);
    zero[r] = hn::Set(Ints(), row_scales[r].zero);
  }
  std::size_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    const IntVec column_sum = hn::LoadU(Ints(), columns.sums + i);
    const Vec column_scale = hn::LoadU(d, columns.scales + i), bias = hn::LoadU(d, columns.bias + i);
    for (std::size_t r = 0; r < kRows; ++r) {
      float* const at = values + r * stride + i;
      hn::StoreU(value_of(hn::LoadU(d, at), zero[r], scale[r], column_sum, column_scale, bias), d, at);
    }
  }
}

// Dequantises the last columns of one row, fewer than a vector, through padded copies.
HWY_INLINE void dequantize_rest(float* values, RowScale row, ColumnScales columns, std::size_t count) {
  const Floats d;
  float padded[kLanes] = {}, scales[kLanes] = {}, bias[kLanes] = {};
  std::int32_t sums[kLanes] = {};
  std::memcpy(padded, values, count * sizeof(float));
  std::memcpy(scales, columns.scales, count * sizeof(float));
  std::memcpy(bias, columns.bias, count * sizeof(float));
  std::memcpy(sums, columns.sums, count * sizeof(float));
  hn::StoreU(value_of(hn::LoadU(d, padded), hn::Set(Ints(), row.zero), hn::Set(d, row.scale),
                      hn::LoadU(Ints(), sums), hn::LoadU(d, scales), hn::LoadU(d, bias)),
             d, padded);
  std::memcpy(values, padded, count * sizeof(float));
}

void dequantize_rows(void* sums_and_values, std::size_t stride, const RowScale* row_scales,
                     ColumnScales columns, std::size_t rows, std::size_t width) {
  float* const values = static_cast<float*>(sums_and_values);
  const std::size_t done = width / kLanes * kLanes;
  const ColumnScales rest{columns.scales + done, columns.sums + done, columns.bias + done};
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4)
    dequantize_vectors<4>(values + r * stride, stride, row_scales + r, columns, width);
  for (; r < rows; ++r) dequantize_vectors<1>(values + r * stride, stride, row_scales + r, columns, width);
  if (done < width)
    for (r = 0; r < rows; ++r) dequantize_rest(values + r * stride + done, row_scales[r], rest, width - done);
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const Quantize> quantize_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_ENTRY(name, space, target) \
  {name, &space::quantize_rows, &space::quantize_weights, &space::dequantize_rows, (here & (target)) != 0},
  static const Quantize versions[] = {TROUPE_TARGETS(TROUPE_ENTRY){"reference", &reference::quantize_rows,
                                                                   &reference::quantize_weights,
                                                                   &reference::dequantize_rows, true}};
#undef TROUPE_ENTRY
  return versions;
}

const Quantize& quantize() {
  static const Quantize& chosen = first_usable(quantize_versions());
  return chosen;
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
