// Linear by OpenBLAS, for machines without oneDNN. OpenBLAS packs inside every call, so nothing is packed
// ahead: the weight stays as it came. Bytes moved: weight, input and output once, and OpenBLAS's own copies
// of both inputs.
#ifndef TROUPE_WITH_ONEDNN
#include <cblas.h>

#include <algorithm>
#include <utility>

#include "kernels/check.h"
#include "kernels/linear.h"

namespace troupe::kernels {

struct Linear::Packed {
  Matrix weight;
  std::vector<float> bias;
};

Linear::Linear(Matrix weight, std::vector<float> bias, WeightFormat format) {
  TROUPE_CHECK(format == WeightFormat::f32, "float32 weights");
  TROUPE_CHECK(weight.rows > 0 && weight.columns > 0, "a linear layer has rows and columns");
  TROUPE_CHECK(weight.values.size() == std::size_t{weight.rows} * weight.columns,
               "the weight is rows × columns");
  TROUPE_CHECK(bias.empty() || bias.size() == weight.rows, "one bias per output row, or none");
  openblas_set_num_threads(1);  // a setting of the whole process
  packed_ = std::make_unique<Packed>(Packed{std::move(weight), std::move(bias)});
}

Linear::Linear(Linear&&) noexcept = default;
Linear& Linear::operator=(Linear&&) noexcept = default;
Linear::~Linear() = default;

std::uint32_t Linear::rows() const { return packed_->weight.rows; }
std::uint32_t Linear::columns() const { return packed_->weight.columns; }

void Linear::run(const float* in, float* out, std::size_t m) const {
  if (m == 0) return;
  const std::vector<float>& bias = packed_->bias;
  for (std::size_t r = 0; r < m && !bias.empty(); ++r) std::copy(bias.begin(), bias.end(), out + r * rows());
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<blasint>(m), static_cast<blasint>(rows()),
              static_cast<blasint>(columns()), 1.0f, in, static_cast<blasint>(columns()),
              packed_->weight.values.data(), static_cast<blasint>(columns()), bias.empty() ? 0.0f : 1.0f, out,
              static_cast<blasint>(rows()));
}

}  // namespace troupe::kernels
#endif
