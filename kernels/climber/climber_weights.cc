// Packs Climber's weights for the CPU's matrix products and drops the originals. Layers that read
// the same input become one product.
#include "kernels/climber/climber_weights.h"

#include <utility>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

// Stacks the rows of several layers that read the same input.
Affine stacked(std::vector<Affine*> layers) {
  Affine all;
  all.weight.columns = layers.at(0)->weight.columns;
  for (Affine* layer : layers) {
    TROUPE_CHECK(layer->weight.columns == all.weight.columns,
                 "climber: stacked layers must have the same columns");
    all.weight.rows += layer->weight.rows;
    all.weight.values.insert(all.weight.values.end(), layer->weight.values.begin(),
                             layer->weight.values.end());
    all.bias.insert(all.bias.end(), layer->bias.begin(), layer->bias.end());
  }
  return all;
}

Affine keys_and_values(const Affine& qkv) {
  const std::uint32_t d = qkv.weight.columns;
  const auto from = static_cast<std::ptrdiff_t>(d);
  return {{2 * d, d, {qkv.weight.values.begin() + from * from, qkv.weight.values.end()}},
          {qkv.bias.begin() + from, qkv.bias.end()}};
}

struct ClimberPacker {
  Linear::Form form;
  WeightMemory memory;

  Linear linear(Affine affine) {
    return Linear(std::move(affine.weight), std::move(affine.bias), form, memory);
  }

  PackedClimberTower tower(ClimberTowerWeights weights) {
    Linear last_kv = linear(keys_and_values(weights.layers.back().qkv));
    std::vector<PackedClimberLayer> layers;
    for (ClimberLayerWeights& layer : weights.layers)
      layers.push_back({std::move(layer.attention_norm), std::move(layer.ffn_norm),
                        linear(std::move(layer.qkv)), linear(std::move(layer.output)),
                        linear(std::move(layer.fc1)), linear(std::move(layer.fc2))});
    return {std::move(weights.positions), std::move(layers), std::move(last_kv),
            std::move(weights.final_norm)};
  }
};

}  // namespace

PackedClimber pack_climber(ClimberModel model, const Linear::Form& form) {
  ClimberWeights& w = model.weights;
  ClimberPacker packer{form, WeightMemory()};
  std::vector<float> scales;
  for (const double temperature : climber_temperatures(model.config, w))
    scales.push_back(static_cast<float>(1 / temperature));
  std::vector<PackedClimberTower> towers;
  for (ClimberTowerWeights& tower : w.towers) towers.push_back(packer.tower(std::move(tower)));
  std::vector<Affine*> experts, gates;
  std::vector<PackedClimberTask> tasks;
  for (Affine& expert : w.experts) experts.push_back(&expert);
  for (ClimberTaskWeights& task : w.tasks) gates.push_back(&task.gate);
  Linear all_experts = packer.linear(stacked(experts)), all_gates = packer.linear(stacked(gates));
  for (ClimberTaskWeights& task : w.tasks)
    tasks.push_back(
        {packer.linear(std::move(task.fc1)), std::move(task.fc2.weight.values), task.fc2.bias.at(0)});
  Linear fusion = packer.linear(std::move(w.fusion_gate));
  TROUPE_CHECK(!model.items || (model.items->rows() == model.config.items + 1 &&
                                model.items->columns() == model.config.hidden),
               "climber: expected a table with one row of features per item and one for padding");
  return {std::move(model.config), std::move(w.items), std::move(w.actions), std::move(model.items),
          std::move(scales),       std::move(towers),  std::move(fusion),    std::move(all_experts),
          std::move(all_gates),    std::move(tasks)};
}

}  // namespace troupe::kernels
