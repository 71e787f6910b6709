// Multiplies matrices for the emulator with plain loops over 16-bit numbers, where a GPU uses
// cuBLASLt.
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/float_formats.h"
#include "kernels/cuda/device/product.h"
#include "kernels/cuda/simt/emulator.h"

namespace troupe::kernels::cuda {
namespace {

class PlainProduct final : public Product {
 public:
  explicit PlainProduct(HalfFormat format) : format_(format) {}

  void run(const ProductShape& shape, const ProductOperands& operands, Stream& stream) override {
    TROUPE_CHECK(shape.inputs % 8 == 0 && shape.outputs % 8 == 0, "inputs and outputs are multiples of 8");
    TROUPE_CHECK(!shape.bias || shape.out != ProductOut::half, "a bias requires float32 results");
    emulator::enqueue(stream, [=, format = format_] { multiply(format, shape, operands); });
  }

 private:
  static void check_memory(const ProductShape& s, const ProductOperands& at) {
    const std::size_t out_bytes = s.out == ProductOut::half ? 2 : 4;
    const auto is_device = [](const void* memory, std::size_t bytes) {
      return bytes == 0 || emulator::is_device_memory(memory, bytes);
    };
    if (!is_device(at.in, std::size_t{2} * s.rows * s.inputs) ||
        !is_device(at.weight, std::size_t{2} * s.outputs * s.inputs) ||
        !is_device(at.out, out_bytes * s.rows * s.outputs) ||
        (s.bias && !is_device(at.bias, std::size_t{4} * s.outputs)))
      throw emulator::BoundsFault("product: an operand outside device memory");
  }

  static std::vector<float> widen(HalfFormat format, const std::uint16_t* from, std::size_t count) {
    std::vector<float> wide(count);
    for (std::size_t i = 0; i < count; ++i)
      wide[i] = format == HalfFormat::bf16 ? from_bf16(from[i]) : from_f16(from[i]);
    return wide;
  }

  static void multiply(HalfFormat format, const ProductShape& s, const ProductOperands& at) {
    check_memory(s, at);
    const auto in = widen(format, at.in, std::size_t{s.rows} * s.inputs);
    const auto weight = widen(format, at.weight, std::size_t{s.outputs} * s.inputs);
    for (std::size_t r = 0; r < s.rows; ++r)
      for (std::size_t o = 0; o < s.outputs; ++o) {
        float sum = s.bias ? at.bias[o] : 0;
        for (std::size_t i = 0; i < s.inputs; ++i) sum += in[r * s.inputs + i] * weight[o * s.inputs + i];
        const std::size_t n = r * s.outputs + o;
        if (s.out == ProductOut::half)
          static_cast<std::uint16_t*>(at.out)[n] = format == HalfFormat::bf16 ? to_bf16(sum) : to_f16(sum);
        else if (s.out == ProductOut::f32)
          static_cast<float*>(at.out)[n] = sum;
        else
          static_cast<float*>(at.out)[n] += sum;
      }
  }

  const HalfFormat format_;
};

}  // namespace

std::unique_ptr<Product> make_product(HalfFormat format) { return std::make_unique<PlainProduct>(format); }

}  // namespace troupe::kernels::cuda
