#pragma once
// Defines the options of the HSTU and Climber executors on a device. Keys and values in f32 request
// about float32's accuracy. Then weights, activations, queries, keys and values are two f16 numbers
// each (RowFormat::split), products take three times as long, and pages have twice the bytes.
// Otherwise all have 16 bits, under a float32 residual stream.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/base/number_formats.h"
#include "kernels/cuda/device/half_format.h"

namespace troupe::kernels::cuda {

struct CudaRankerOptions {
  int device = 0;
  std::uint32_t page_tokens = 16;
  KvFormat kv = KvFormat::bf16;
  HalfFormat weights = HalfFormat::bf16;  // used if keys and values have 16 bits
  // Bounds of one pass, as in CudaDecoderOptions.
  std::uint32_t rows_max = 8192;
  std::uint32_t keys_max = 1 << 18;
  std::uint32_t logits_max = 1 << 20;
  std::size_t plan_bytes_max = std::size_t{16} << 20;

  RowFormat rows() const {
    if (kv == KvFormat::f32) return RowFormat::split;
    return weights == HalfFormat::bf16 ? RowFormat::bf16 : RowFormat::f16;
  }
  // Returns how many 16-bit numbers represent one number of a query.
  std::uint32_t query_parts() const { return kv == KvFormat::f32 ? 2 : 1; }
};

// Returns an empty string, or which bound is invalid.
inline std::string bounds_fault(const CudaRankerOptions& options) {
  if (options.page_tokens == 0) return "page_tokens 0; expected at least 1";
  if (options.rows_max == 0 || options.logits_max == 0 || options.plan_bytes_max == 0)
    return "a bound of passes is 0; expected at least 1";
  return "";
}
// Returns an empty string if `found` is a multiple of 8, else the fault.
inline std::string multiple_of_8_fault(const char* what, std::uint32_t found) {
  return found % 8 == 0
             ? ""
             : std::string(what) + " " + std::to_string(found) + "; on a GPU expected a multiple of 8";
}

}  // namespace troupe::kernels::cuda
