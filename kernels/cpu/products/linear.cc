// Linear layers over the products of panels and of bytes. int8: the rows of a step are quantised and
// multiplied. A product that turns its sums into values in a second pass finds them in the cache, because
// steps are short. The bytes are in thread-local memory, which only grows.
#include "kernels/cpu/products/linear.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/operations/quantize.h"

namespace troupe::kernels {
namespace {

// Rows per step of an int8 layer. Short steps keep their sums in the second-level cache. But every
// step reads the weight again, which is slow for a weight larger than that cache (measured at 8.7
// MB: 256 rows are 10 % faster than 64).
std::size_t int8_step_rows(std::size_t weight_bytes) { return weight_bytes <= (2u << 20) ? 64 : 256; }

// The bytes and scales of one step of an int8 layer.
struct QuantizedRows {
  std::vector<std::uint8_t> bytes;
  std::vector<RowScale> scales;
};

QuantizedRows& thread_rows(std::size_t rows, std::size_t columns) {
  thread_local QuantizedRows quantized;
  if (quantized.bytes.size() < rows * columns) quantized.bytes.resize(rows * columns);
  if (quantized.scales.size() < rows) quantized.scales.resize(rows);
  return quantized;
}

QuantizedMatrix quantize_matrix(const Matrix& weight, std::int32_t limit) {
  QuantizedMatrix quantized{weight.rows, weight.columns, std::vector<std::int8_t>(weight.values.size()),
                            std::vector<float>(weight.rows), std::vector<std::int32_t>(weight.rows)};
  quantize().quantize_weights(weight.values.data(), weight.columns, quantized.values.data(),
                              quantized.scales.data(), quantized.sums.data(), weight.rows, weight.columns,
                              limit);
  return quantized;
}

class Int8Layer {
 public:
  Int8Layer(QuantizedMatrix weight, std::vector<float> bias, const ByteProductVersion& version,
            WeightMemory& memory)
      : rows_(weight.rows),
        columns_(weight.columns),
        product_(version.pack(weight, memory)),
        scales_(std::move(weight.scales)),
        sums_(std::move(weight.sums)),
        bias_(std::move(bias)) {
    const std::size_t padding = byte_columns_padding, padded = (rows_ + padding - 1) / padding * padding;
    scales_.resize(padded);
    sums_.resize(padded);
    bias_.resize(padded);  // zeros without a bias
  }

  void run(const float* in, float* out, std::size_t m, bool add) const {
    const std::size_t most = std::min(m, int8_step_rows(rows_ * columns_));
    QuantizedRows& rows = thread_rows(most, columns_);
    while (m > 0) {
      const std::size_t step = std::min(m, most);
      quantize().quantize_rows(in, columns_, rows.bytes.data(), rows.scales.data(), step, columns_);
      product_->run_values({rows.bytes.data(), rows.scales.data(), out, step, add},
                           {scales_.data(), sums_.data(), bias_.data()});
      in += step * columns_;
      out += step * rows_;
      m -= step;
    }
  }

 private:
  std::size_t rows_, columns_;
  std::unique_ptr<ByteProduct> product_;
  std::vector<float> scales_;
  std::vector<std::int32_t> sums_;
  std::vector<float> bias_;
};

}  // namespace

struct Linear::Packed {
  std::uint32_t rows, columns;
  Product* product;
  std::optional<PackedMatrix> panels;  // one of the two is set
  std::optional<Int8Layer> int8;

  void run(const float* in, float* out, std::size_t m, bool add, FeaturePart features) const {
    if (int8) {
      TROUPE_CHECK(features.parts == 1, "linear: an int8 layer must have one part");
      int8->run(in, out, m, add);
      return;
    }
    const std::size_t count = panels->panels();
    product(*panels, {.in = in,
                      .in_stride = columns,
                      .out = out,
                      .out_stride = rows,
                      .rows = m,
                      .add = add,
                      .panel_begin = count * features.part / features.parts,
                      .panel_end = count * (features.part + 1) / features.parts});
  }
};

Linear::Linear(Matrix weight, std::vector<float> bias, const Form& form, WeightMemory& memory) {
  TROUPE_CHECK(weight.rows > 0 && weight.columns > 0, "linear: expected rows and columns above 0");
  TROUPE_CHECK(weight.values.size() == std::size_t{weight.rows} * weight.columns,
               "linear: the weight must be rows × columns");
  TROUPE_CHECK(bias.empty() || bias.size() == weight.rows,
               "linear: expected one bias per output row, or none");
  packed_ = std::make_unique<Packed>();
  packed_->rows = weight.rows;
  packed_->columns = weight.columns;
  packed_->product = form.product.run;
  if (form.format != WeightFormat::int8) {
    packed_->panels.emplace(weight, bias, form.product.panel_width, memory, form.format);
  } else {
    TROUPE_CHECK(weight.columns <= int8_columns_max,
                 "linear: the sums of an int8 layer must fit into 32 bits");
    packed_->int8.emplace(quantize_matrix(weight, form.bytes.weight_limit()), std::move(bias), form.bytes,
                          memory);
  }
}

Linear::Linear(Linear&&) noexcept = default;
Linear& Linear::operator=(Linear&&) noexcept = default;
Linear::~Linear() = default;

std::uint32_t Linear::rows() const { return packed_->rows; }
std::uint32_t Linear::columns() const { return packed_->columns; }

std::size_t Linear::parts_max() const { return packed_->panels ? packed_->panels->panels() : 1; }

void Linear::run(const float* in, float* out, std::size_t m, FeaturePart features) const {
  packed_->run(in, out, m, false, features);
}
void Linear::add(const float* in, float* out, std::size_t m, FeaturePart features) const {
  packed_->run(in, out, m, true, features);
}

}  // namespace troupe::kernels
