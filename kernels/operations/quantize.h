#pragma once
// Converts numbers to bytes for the int8 linear layers (W8A8). Activations become unsigned bytes
// with a scale and a zero point per row, weights signed bytes with a scale per output feature, and
// the int32 sums of their products become float32 again. Every rounding is to nearest, ties to
// even, of float32 arithmetic that is spelled out here, so all versions make the same bytes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/checkpoint/model.h"

namespace troupe::kernels {

// A byte b of the row represents scale * (b - zero).
struct RowScale {
  float scale;
  std::int32_t zero;  // 0..255: the byte of the value 0, which is always exact
};

// Row r of `in`, `width` floats, becomes row r of `out` (dense, `width` bytes) and scales[r]. With low and
// high the least and the greatest value, 0 included, and a correctly rounded operation at each sign:
//   scale = high / 255 - low / 255,  inverse = 1 / scale,  zero = nearest(-low * inverse),
//   byte = nearest(value * inverse) + zero, at most 255.
// So a byte is off by half a scale, plus what float32 rounds. A row whose scale would be below 2^-100 counts
// as zeros: scale 0, every byte and zero 0. A row with a NaN or an infinity has scale NaN, every byte and
// zero 0: its results are NaN.
using QuantizeRows = void(const float* in, std::size_t in_stride, std::uint8_t* out, RowScale* scales,
                          std::size_t rows, std::size_t width);

// Row r of `in`, `width` floats, becomes row r of `out` (dense), scales[r] and sums[r], the sum of the row's
// bytes:
//   scale = greatest magnitude / limit,  inverse = 1 / scale,  byte = nearest(value * inverse).
// Below 2^-100, NaN and infinity as above. `limit` is at most 127.
using QuantizeWeights = void(const float* in, std::size_t in_stride, std::int8_t* out, float* scales,
                             std::int32_t* sums, std::size_t rows, std::size_t width, std::int32_t limit);

// Scales and sums of a product's columns, `width` of each, as QuantizeWeights makes them from the
// weight.
struct ColumnScales {
  const float* scales;
  const std::int32_t* sums;
  const float* bias;
};

// In place: every int32 in `values`, a sum of byte products, becomes the float
//   (sum - zero[r] * sums[column]) * scales[column] * scale[r] + bias[column],
// the difference in int32, the rest in float32 (the last product and sum may be one fused operation).
using DequantizeRows = void(void* values, std::size_t stride, const RowScale* rows_scales,
                            ColumnScales columns, std::size_t rows, std::size_t width);

// One set of versions per instruction set; `quantize()` is the best that this CPU can run.
struct Quantize {
  std::string_view name;  // "reference", "avx512", "avx2", …
  QuantizeRows* quantize_rows;
  QuantizeWeights* quantize_weights;
  DequantizeRows* dequantize_rows;
  bool usable;
};
std::span<const Quantize> quantize_versions();  // the last is "reference"
const Quantize& quantize();

// Maximum number of products of a byte and a weight whose sum certainly fits an int32.
inline constexpr std::uint32_t int8_columns_max = 65536;

// A weight matrix made by QuantizeWeights.
struct QuantizedMatrix {
  std::uint32_t rows = 0, columns = 0;
  std::vector<std::int8_t> values;  // rows × columns
  std::vector<float> scales;        // [rows]
  std::vector<std::int32_t> sums;   // [rows]
};

}  // namespace troupe::kernels
