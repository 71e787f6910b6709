#pragma once
// A decoder's weights in the form that the CPU computes with. Projections that read the same input are one
// product: query|key|value and gate|up. Shared, unchanged, by every executor of the process.
#include <vector>

#include "kernels/checkpoint/model.h"
#include "kernels/cpu/products/linear.h"

namespace troupe::kernels {

struct PackedLayer {
  std::vector<float> input_norm, post_attention_norm;
  std::vector<float> q_norm, k_norm;  // empty without qk_norm
  Linear qkv, o, gate_up, down;
};

struct PackedDecoder {
  DecoderConfig config;
  std::vector<PackedLayer> layers;
  Matrix embedding;
  std::vector<float> final_norm;
  Matrix output;  // empty if tied to `embedding`

  const Matrix& output_rows() const { return output.rows == 0 ? embedding : output; }
};

// Packs layer by layer and drops each original on the way, so that the peak is one model and one layer.
PackedDecoder pack_decoder(DecoderModel model, const Linear::Form& form);

}  // namespace troupe::kernels
