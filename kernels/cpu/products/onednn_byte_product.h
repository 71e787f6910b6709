#pragma once
// out[m, rows] = in[m, columns] · weightᵀ for unsigned bytes by signed bytes with int32 sums, by
// oneDNN, with the weight packed once, for any m. The idea: the packed layout that oneDNN 2.6 picks
// for a weight is the same for every number of input rows. But a primitive must know its number of
// rows (one with that left open takes a path that is many times slower). So there is a primitive
// for each of 1..128 and 256 rows, made when first needed (0.2 ms) and shared by all products of
// one shape. A product runs in steps of these sizes, the last one exact: a remainder cut into
// 8+4+2+1 would read the weight four times. Bytes moved: the weight once per step, input and output
// once.
#include <compare>
#include <cstdint>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>

namespace troupe::kernels {

struct ByteProductShape {
  std::uint32_t rows, columns;  // of the weight
  auto operator<=>(const ByteProductShape&) const = default;
};

class OnednnByteProduct {
 public:
  OnednnByteProduct(ByteProductShape shape, const std::int8_t* weight);  // packs a copy
  ~OnednnByteProduct();
  void run(const std::uint8_t* in, float* out, std::size_t m) const;  // sums in the bytes of floats

 private:
  class Steps;
  std::shared_ptr<Steps> steps_;
  dnnl::memory weight_;
};

}  // namespace troupe::kernels
