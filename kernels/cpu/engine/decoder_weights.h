#pragma once
// A decoder's weights in the form that the CPU computes with. Projections that read the same input
// are one product: query|key|value and gate|up. Immutable and shared by every executor of the
// process.
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/checkpoint/model.h"
#include "kernels/cpu/products/linear.h"

namespace troupe::kernels {

struct PackedLayer {
  std::vector<float> input_norm, post_attention_norm;
  std::vector<float> q_norm, k_norm;  // empty without qk_norm
  Linear qkv, o, gate_up, down;
};

// The output projection packed like the layers: a second copy, made at the first product of many
// states with all of it. Beam searches need it; rankers, which read a few named rows, never do. It is
// in bf16 if the layers are, otherwise in float32.
class PackedOutput {
 public:
  // Returns the packed copy. Thread-safe. The arguments must be the same at each call.
  const PackedMatrix& get(const Matrix& output, std::size_t panel_width, WeightFormat layers) {
    std::call_once(once_, [&] {
      WeightMemory memory;
      const WeightFormat format = layers == WeightFormat::bf16 ? layers : WeightFormat::f32;
      packed_.emplace(output, std::span<const float>(), panel_width, memory, format);
    });
    return *packed_;
  }

 private:
  std::once_flag once_;
  std::optional<PackedMatrix> packed_;
};

struct PackedDecoder {
  DecoderConfig config;
  std::vector<PackedLayer> layers;
  Matrix embedding;
  std::vector<float> final_norm;
  Matrix output;  // empty if tied to `embedding`
  std::unique_ptr<PackedOutput> packed_output = std::make_unique<PackedOutput>();

  const Matrix& output_rows() const { return output.rows == 0 ? embedding : output; }
};

// Packs layer by layer and drops each original, so that the peak is one model and one layer.
PackedDecoder pack_decoder(DecoderModel model, const Linear::Form& form);

}  // namespace troupe::kernels
