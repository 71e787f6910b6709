#pragma once
// Holds a decoder's weights on the device, uploaded once and shared by all executors, which do not
// change them. Projections with the same input are one matrix: query|key|value and gate|up.
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/checkpoint/model.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/half_format.h"
#include "kernels/cuda/engine/weight_uploader.h"

namespace troupe::kernels::cuda {

// Device pointers of a layer; null if the model lacks the tensor.
struct DeviceLayer {
  const std::uint16_t *qkv = nullptr, *o = nullptr, *gate_up = nullptr, *down = nullptr;
  const float *qkv_bias = nullptr, *o_bias = nullptr;
  const float *input_norm = nullptr, *post_attention_norm = nullptr;
  const float *q_norm = nullptr, *k_norm = nullptr;
};

struct DeviceWeights {
  DecoderConfig config;
  HalfFormat half = HalfFormat::bf16;
  std::vector<DeviceLayer> layers;
  // [padded_vocabulary][hidden]; both are the same pointer if tied.
  const std::uint16_t *embedding = nullptr, *output = nullptr;
  const float* final_norm = nullptr;
  const float* rotations = nullptr;  // [positions_max][head_dim / 2] pairs of cosine and sine
  std::vector<DeviceMemory> memory;  // owns the memory of all pointers above
};

inline std::uint32_t padded_vocabulary(std::uint32_t rows) { return padded_outputs(rows); }

// Uploads to the calling thread's device, tensor by tensor, and frees each original after its
// upload.
std::shared_ptr<const DeviceWeights> upload_weights(DecoderModel model, HalfFormat half);

}  // namespace troupe::kernels::cuda
