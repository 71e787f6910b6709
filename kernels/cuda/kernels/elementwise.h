#pragma once
// The elementwise kernels of kernels/operations/elementwise.h on a CUDA device: the same contracts, with pointers to
// device memory and a stream. They are memory-bound; each reads its inputs and writes its outputs once.
#include <cstddef>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda {

// As RmsNorm, Rope, SwiGlu and AddRows. Each only enqueues; a launch that fails throws DeviceError.
void rms_norm(const float* in, std::size_t in_stride, const float* weight, float epsilon, float* out,
              std::size_t out_stride, std::size_t rows, std::size_t width, Stream& stream);
void rope(float* values, std::size_t stride, std::size_t rows, std::size_t heads, std::size_t head_dim,
          const float* cosines, const float* sines, Stream& stream);
void swiglu(const float* gate_up, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
            std::size_t width, Stream& stream);
void add_rows(const float* in, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
              std::size_t width, Stream& stream);

}  // namespace troupe::kernels::cuda
