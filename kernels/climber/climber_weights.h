#pragma once
// Climber's weights in the form that the CPU computes with. Layers that read the same input are one
// product: the experts, and the tasks' gates over them. Immutable and shared by every executor of
// the process.
#include <memory>
#include <vector>

#include "kernels/climber/climber.h"
#include "kernels/cpu/products/linear.h"

namespace troupe::kernels {

struct PackedClimberLayer {
  NormWeights attention_norm, ffn_norm;
  Linear qkv, output, fc1, fc2;
};
struct PackedClimberTower {
  Matrix positions;
  std::vector<PackedClimberLayer> layers;
  Linear last_kv;  // the last layer's keys and values alone: a history needs no queries there
  NormWeights final_norm;
};
struct PackedClimberTask {
  Linear fc1;
  std::vector<float> fc2;  // [head_size]
  float fc2_bias;
};
struct PackedClimber {
  ClimberConfig config;
  Matrix items, actions;
  std::shared_ptr<EmbeddingTable> table;  // not null: has the rows of items
  std::vector<float> scales;              // 1 / temperature: [tower][scenario][layer][head]
  std::vector<PackedClimberTower> towers;
  Linear fusion_gate, experts, task_gates;
  std::vector<PackedClimberTask> tasks;

  float scale(std::uint32_t tower, std::uint32_t scenario, std::uint32_t layer, std::uint32_t head) const {
    return scales[((std::size_t{tower} * config.scenarios + scenario) * config.layers + layer) *
                      config.heads +
                  head];
  }
};

PackedClimber pack_climber(ClimberModel model, const Linear::Form& form);

}  // namespace troupe::kernels
