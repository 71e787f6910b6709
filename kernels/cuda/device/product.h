#pragma once
// Matrix products of a decoder on the device: activations times a weight matrix, sums in float32. On a GPU
// they are cuBLASLt's (product_cuda.cc), which chooses an algorithm once for each shape; in the emulator
// plain loops over the same rounded numbers (product_emulated.cc).
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/half_format.h"

namespace troupe::kernels::cuda {

// What a product leaves: its sums rounded to the format of its inputs, its float32 sums, or these added to
// what is there.
enum class ProductOut : std::uint8_t { half, f32, add_f32 };

// Everything but the addresses.
struct ProductShape {
  std::uint32_t rows = 0;     // tokens
  std::uint32_t inputs = 0;   // columns of the weight; a multiple of 8
  std::uint32_t outputs = 0;  // rows of the weight; a multiple of 8
  ProductOut out = ProductOut::half;
  bool bias = false;  // with float32 results only

  auto operator<=>(const ProductShape&) const = default;
};

// Device memory, dense rows, 256-byte aligned. out[r][o] = sum over i of in[r][i] * weight[o][i], plus
// bias[o].
struct ProductOperands {
  const std::uint16_t* in = nullptr;      // [rows][inputs]
  const std::uint16_t* weight = nullptr;  // [outputs][inputs], as checkpoints store them
  const float* bias = nullptr;            // [outputs]
  void* out = nullptr;                    // [rows][outputs]
};

// Products of one stream.
class Product {
 public:
  virtual ~Product() = default;
  // Enqueues. Does not allocate on the device, so that it may be recorded (Graph).
  virtual void run(const ProductShape& shape, const ProductOperands& operands, Stream& stream) = 0;
};

std::unique_ptr<Product> make_product(HalfFormat format);

}  // namespace troupe::kernels::cuda
