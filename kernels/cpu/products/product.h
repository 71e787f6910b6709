#pragma once
// The matrix product under a linear layer: out = in · weightᵀ + bias, with the weight packed once, in
// float32 or bf16, for the version that will run. A product allocates nothing, keeps no state and takes
// any number of rows. It may
// run in several threads at once, over different rows or over different panels of one weight (a panel is some
// 8 to 32 rows of the weight, that is, columns of the output). Each output is summed in float32 in an order
// that depends on the version, not on other rows. A weight in bf16 is read as such, half the bytes. Where the
// CPU has AVX512_BF16, rows are rounded to bf16 as well (to nearest, ties to even), and two products are
// summed at a time, at twice the rate; their rounding error is bounded in product_test.cc. Other versions
// widen the weights, which is exact.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/base/number_formats.h"
#include "kernels/checkpoint/model.h"
#include "kernels/cpu/products/weight_memory.h"
#include "kernels/operations/quantize.h"

namespace troupe::kernels {

class PackedMatrix {
 public:
  // `bias` is empty or has weight.rows values. `panel_width` is that of the version that will run.
  // `format` is f32 or bf16, to which the values are rounded.
  PackedMatrix(const Matrix& weight, std::span<const float> bias, std::size_t panel_width,
               WeightMemory& memory, WeightFormat format = WeightFormat::f32);
  // A weight in bytes, for byte_product.h; without a bias.
  PackedMatrix(const QuantizedMatrix& weight, std::size_t panel_width, WeightMemory& memory);

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  std::size_t panel_width() const { return panel_width_; }
  std::size_t panels() const { return (rows_ + panel_width_ - 1) / panel_width_; }
  WeightFormat format() const { return format_; }
  // Words of 32 bits that a row has: one for each column, for two columns in bf16 or for four in int8,
  // the first in the lowest bits. A column past the last one is zero.
  std::size_t words() const { return (columns_ + word_columns() - 1) / word_columns(); }
  std::size_t word_columns() const {
    return format_ == WeightFormat::f32 ? 1 : format_ == WeightFormat::bf16 ? 2 : 4;
  }
  std::size_t bytes() const { return panels() * panel_width_ * (words() + 1) * sizeof(float); }

  // Panel p, as [words][panel_width]; panels follow one another. Rows past the last one are zero.
  const float* panel(std::size_t p) const { return values_.get() + p * words() * panel_width_; }
  float value(std::size_t row, std::size_t column) const;
  // The bias of panel p, [panel_width]; zero where there is none.
  const float* bias(std::size_t p) const { return panel(panels()) + p * panel_width_; }

 private:
  std::size_t rows_, columns_, panel_width_;
  WeightFormat format_;
  std::shared_ptr<const float> values_;  // all panels, then the bias
};

// The rows to multiply and their addresses. Rows are `in_stride` and `out_stride` floats apart.
struct ProductTask {
  const float* in = nullptr;  // [rows][weight.columns()]
  std::size_t in_stride = 0;
  float* out = nullptr;  // [rows][weight.rows()]; not the memory of `in`
  std::size_t out_stride = 0;
  std::size_t rows = 0;
  bool add = false;  // out += in · weightᵀ + bias, for a residual stream
  // Panels of the weight to use, and columns of `out` to write. An end past the last panel means
  // the last.
  std::size_t panel_begin = 0, panel_end = std::numeric_limits<std::size_t>::max();
  // Scales of a product of bytes, if its sums become values as they are stored (DequantizeRows); `add` then
  // adds values. The arrays of columns are padded to whole panels.
  const RowScale* row_scales = nullptr;
  ColumnScales column_scales = {};
};

using Product = void(const PackedMatrix& weight, const ProductTask& task);

Product product_reference;  // product_reference.cc: the definition, in double; never tuned; any panel width

struct ProductVersion {
  std::string_view name;  // "avx512_bf16", "avx512", "avx2", "sse4", "neon", "reference"
  std::size_t panel_width;
  Product* run;
  bool usable;        // on this CPU
  bool rounds_input;  // to bf16, if the weight is in bf16
};
std::span<const ProductVersion> product_versions();  // best first
const ProductVersion& product_version();             // the best one for this CPU, chosen once

}  // namespace troupe::kernels
