#pragma once
// Multiplies activations with a weight matrix on the device, with sums in float32. On a GPU
// cuBLASLt does this (product_cuda.cc); it chooses an algorithm once per shape. The emulator runs
// plain loops over the same rounded numbers (product_emulated.cc).
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/half_format.h"

namespace troupe::kernels::cuda {

// Result of a product: the sums rounded to the inputs' format, the float32 sums, or the float32
// sums added to the previous output.
enum class ProductOut : std::uint8_t { half, f32, add_f32 };

// Parameters of a product other than addresses.
struct ProductShape {
  std::uint32_t rows = 0;     // tokens
  std::uint32_t inputs = 0;   // columns of the weight; a multiple of 8
  std::uint32_t outputs = 0;  // rows of the weight; a multiple of 8
  ProductOut out = ProductOut::half;
  bool bias = false;  // only with float32 results

  auto operator<=>(const ProductShape&) const = default;
};

// Operands in device memory, with dense rows, 256-byte aligned. out[r][o] = sum over i of in[r][i]
// * weight[o][i], plus bias[o].
struct ProductOperands {
  const std::uint16_t* in = nullptr;      // [rows][inputs]
  const std::uint16_t* weight = nullptr;  // [outputs][inputs], as checkpoints store them
  const float* bias = nullptr;            // [outputs]
  void* out = nullptr;                    // [rows][outputs]
};

// Enqueues products; each object serves one stream.
class Product {
 public:
  virtual ~Product() = default;
  // Enqueues a product. Allocates nothing on the device, so that it may be recorded (Graph).
  virtual void run(const ProductShape& shape, const ProductOperands& operands, Stream& stream) = 0;
};

std::unique_ptr<Product> make_product(HalfFormat format);

}  // namespace troupe::kernels::cuda
