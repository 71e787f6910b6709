#pragma once
// The CPU backend with its vector kernels named outright, so that a test can run the whole decoder on every
// instruction set that this CPU has. Everybody else calls make_cpu_decoder of decoder.h, which takes the
// best.
#include <cstdint>
#include <memory>

#include "kernels/attend.h"
#include "kernels/decoder.h"
#include "kernels/elementwise.h"

namespace troupe::kernels {

struct VectorKernels {
  const Elementwise* elementwise;
  Attend* attend;
};

std::unique_ptr<Decoder> make_cpu_decoder(DecoderModel model, const DecoderOptions& options,
                                          const VectorKernels& vector_kernels);

}  // namespace troupe::kernels
