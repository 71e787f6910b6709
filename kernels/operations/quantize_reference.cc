// Converts numbers to bytes and back for int8 linear layers, one value at a time. Faster versions
// must give the same bytes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/operations/quantize_versions.h"

namespace troupe::kernels::reference {

void quantize_rows(const float* in, std::size_t in_stride, std::uint8_t* out, RowScale* scales,
                   std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r, in += in_stride, out += width) {
    float low = 0, high = 0;
    bool finite = true;
    for (std::size_t i = 0; i < width; ++i) {
      low = std::min(low, in[i]);
      high = std::max(high, in[i]);
      finite = finite && std::isfinite(in[i]);
    }
    const float scale = high / 255 - low / 255, inverse = 1 / scale;
    if (!finite || scale < quantize_scale_min) {
      scales[r] = {finite ? 0.0f : std::numeric_limits<float>::quiet_NaN(), 0};
      std::fill_n(out, width, std::uint8_t{0});
      continue;
    }
    scales[r] = {scale, static_cast<std::int32_t>(std::nearbyint(-low * inverse))};
    for (std::size_t i = 0; i < width; ++i) {
      const auto step = static_cast<std::int32_t>(std::nearbyint(in[i] * inverse));
      out[i] = static_cast<std::uint8_t>(std::min(step + scales[r].zero, 255));
    }
  }
}

void quantize_weights(const float* in, std::size_t in_stride, std::int8_t* out, float* scales,
                      std::int32_t* sums, std::size_t rows, std::size_t width, std::int32_t limit) {
  for (std::size_t r = 0; r < rows; ++r, in += in_stride, out += width) {
    float magnitude = 0;
    bool finite = true;
    for (std::size_t i = 0; i < width; ++i) {
      magnitude = std::max(magnitude, std::abs(in[i]));
      finite = finite && std::isfinite(in[i]);
    }
    const float scale = magnitude / float(limit), inverse = 1 / scale;
    const bool counts = finite && scale >= quantize_scale_min;
    scales[r] = counts ? scale : finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    sums[r] = 0;
    for (std::size_t i = 0; i < width; ++i) {
      out[i] = counts ? static_cast<std::int8_t>(std::nearbyint(in[i] * inverse)) : std::int8_t{0};
      sums[r] += out[i];
    }
  }
}

void dequantize_rows(void* values, std::size_t stride, const RowScale* row_scales, ColumnScales columns,
                     std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < width; ++i) {
      std::byte* const place = static_cast<std::byte*>(values) + (r * stride + i) * sizeof(float);
      std::int32_t sum;
      std::memcpy(&sum, place, sizeof sum);
      const double centred = sum - row_scales[r].zero * columns.sums[i];
      const auto value =
          static_cast<float>(centred * columns.scales[i] * row_scales[r].scale + columns.bias[i]);
      std::memcpy(place, &value, sizeof value);
    }
}

}  // namespace troupe::kernels::reference
