#pragma once
// The CPU backend with its vector kernels and its team given explicitly. So a test can run the
// whole decoder on every instruction set that this CPU has, and split even the smallest pass. Other
// code calls make_cpu_decoder of decoder.h, which takes the best.
#include <cstdint>
#include <memory>

#include "kernels/cpu/engine/team.h"
#include "kernels/cpu/products/byte_product.h"
#include "kernels/cpu/products/product.h"
#include "kernels/decoder/decoder.h"
#include "kernels/operations/attend.h"
#include "kernels/operations/elementwise.h"
#include "kernels/operations/exponential_sum.h"
#include "kernels/operations/readout.h"

namespace troupe::kernels {

struct VectorKernels {
  const Elementwise* elementwise;
  Attend* attend;
  ReadoutRows* readout;
  SumExponentials* sum_exponentials;
  const ProductVersion* product;
  const ByteProductVersion* bytes = &byte_product_version();  // of int8 layers
};

std::unique_ptr<Executor> make_cpu_decoder(DecoderModel model, const DecoderOptions& options,
                                           const VectorKernels& vector_kernels, Teams teams);

}  // namespace troupe::kernels
