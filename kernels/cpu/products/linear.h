#pragma once
// A linear layer with its weights packed once for this CPU: out[M, rows] = in[M, columns] · weightᵀ
// + bias, with the weights in float32 or bf16 (product.h) or in int8 (byte_product.h, quantize.h).
// Single-threaded; callers parallelise. A row of the output is bit-equal whatever other rows are in
// the call. In int8 a row is NaN if its input has a NaN or an infinity, and every row is NaN at an
// output feature whose weights have one.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/base/number_formats.h"
#include "kernels/checkpoint/model.h"
#include "kernels/cpu/products/byte_product.h"
#include "kernels/cpu/products/product.h"

namespace troupe::kernels {

// A part of a layer's output features, [part/parts, (part + 1)/parts) of them: threads share these
// when rows are few.
struct FeaturePart {
  std::size_t part = 0, parts = 1;
};

class Linear {
 public:
  // How weights are packed: each format for the version that multiplies it. They are stored in `memory`,
  // which a model's layers share.
  struct Form {
    WeightFormat format = WeightFormat::f32;
    const ProductVersion& product = product_version();
    const ByteProductVersion& bytes = byte_product_version();  // if the format is int8
  };

  // Packs `weight` (and drops it). `bias` is empty or has weight.rows values.
  Linear(Matrix weight, std::vector<float> bias, const Form& form, WeightMemory& memory);
  Linear(Linear&&) noexcept;
  Linear& operator=(Linear&&) noexcept;
  ~Linear();

  std::uint32_t rows() const;
  std::uint32_t columns() const;
  std::size_t parts_max() const;  // parts beyond this number have no work; 1 for int8
  // Multiplies; `in` is m × columns, `out` m × rows, both dense. Thread-safe.
  void run(const float* in, float* out, std::size_t m, FeaturePart features = {}) const;
  // Multiplies and adds to `out`, for a residual stream.
  void add(const float* in, float* out, std::size_t m, FeaturePart features = {}) const;

 private:
  struct Packed;
  std::unique_ptr<Packed> packed_;
};

}  // namespace troupe::kernels
