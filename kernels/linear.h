#pragma once
// A linear layer with its weights packed once for this CPU: out[M, rows] = in[M, columns] · weightᵀ + bias, with the
// weights in float32 or int8 (number_formats.h).
// The product is the library's (oneDNN; OpenBLAS where oneDNN is missing); packing, M buckets and the primitive
// cache are ours. One-threaded: parallelism is one level up.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/model.h"
#include "kernels/number_formats.h"

namespace troupe::kernels {

class Linear {
 public:
  // Packs `weight` (and drops it). `bias` is empty or has weight.rows values.
  Linear(Matrix weight, std::vector<float> bias, WeightFormat format = WeightFormat::f32);
  Linear(Linear&&) noexcept;
  Linear& operator=(Linear&&) noexcept;
  ~Linear();

  std::uint32_t rows() const;
  std::uint32_t columns() const;
  // `in`: m × columns, `out`: m × rows, both dense. Safe to call from several threads at once.
  void run(const float* in, float* out, std::size_t m) const;

 private:
  struct Packed;
  std::unique_ptr<Packed> packed_;
};

}  // namespace troupe::kernels
