// Climber's tensors: one table of names, shapes and members serves reading, writing, random filling
// and version hashing.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <span>
#include <string_view>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"
#include "kernels/checkpoint/decoder_tensors.h"
#include "kernels/checkpoint/file_kind.h"
#include "kernels/checkpoint/hf_config.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/random_values.h"
#include "kernels/checkpoint/safetensors.h"
#include "kernels/checkpoint/version_hash.h"
#include "kernels/climber/climber.h"
#include "kernels/climber/climber_config.h"

namespace troupe::kernels {
namespace {

constexpr char kWeights[] = "model.safetensors";
constexpr std::string_view item_tensor = "item_embedding";  // without its suffix ".weight"

void give_shape(Matrix& matrix, std::uint32_t rows, std::uint32_t columns) { matrix = {rows, columns, {}}; }
void give_shape(Affine& affine, std::uint32_t rows, std::uint32_t columns) {
  affine.weight = {rows, columns, {}};
}

ClimberWeights empty_weights(const ClimberConfig& c) {
  ClimberWeights w;
  give_shape(w.items, c.items + 1, c.hidden);
  give_shape(w.actions, c.actions, c.hidden);
  give_shape(w.strategies, static_cast<std::uint32_t>(c.towers.size()), c.temperature_embedding);
  give_shape(w.scenarios, c.scenarios, c.temperature_embedding);
  give_shape(w.temperature_fc1, c.temperature_hidden, 2 * c.temperature_embedding);
  give_shape(w.temperature_fc2, c.layers * c.heads, c.temperature_hidden);
  for (const ClimberTower& tower : c.towers) {
    ClimberTowerWeights& made = w.towers.emplace_back();
    give_shape(made.positions, tower.positions + 1, c.hidden);
    ClimberLayerWeights layer;
    give_shape(layer.qkv, 3 * c.hidden, c.hidden);
    give_shape(layer.output, c.hidden, c.hidden);
    give_shape(layer.fc1, c.intermediate, c.hidden);
    give_shape(layer.fc2, c.hidden, c.intermediate);
    made.layers.assign(c.layers, layer);
  }
  give_shape(w.fusion_gate, c.fused(), c.fused());
  w.experts.resize(c.experts);
  for (Affine& expert : w.experts) give_shape(expert, c.expert_size, c.fused());
  w.tasks.resize(c.tasks.size());
  for (ClimberTaskWeights& task : w.tasks) {
    give_shape(task.gate, c.experts, c.fused());
    give_shape(task.fc1, c.head_size, c.expert_size);
    give_shape(task.fc2, 1, c.head_size);
  }
  return w;
}

template <class Weights>
class Table {
 public:
  template <class AnyMatrix>
  void matrix(const std::string& name, AnyMatrix& matrix) {
    slots.push_back({name + ".weight", {matrix.rows, matrix.columns}, &matrix.values});
  }
  template <class AnyAffine>
  void affine(const std::string& name, AnyAffine& affine) {
    matrix(name, affine.weight);
    slots.push_back({name + ".bias", {affine.weight.rows}, &affine.bias});
  }
  template <class AnyNorm>
  void norm(const std::string& name, AnyNorm& norm, std::uint64_t width) {
    slots.push_back({name + ".weight", {width}, &norm.weight});
    slots.push_back({name + ".bias", {width}, &norm.bias});
  }
  std::vector<TensorSlot<Weights>> slots;
};

template <class Weights>
std::vector<TensorSlot<Weights>> tensors_of(const ClimberConfig& c, Weights& w) {
  Table<Weights> table;
  table.matrix(std::string(item_tensor), w.items);
  table.matrix("action_embedding", w.actions);
  table.matrix("temperature.strategy_embedding", w.strategies);
  table.matrix("temperature.scenario_embedding", w.scenarios);
  table.affine("temperature.fc1", w.temperature_fc1);
  table.affine("temperature.fc2", w.temperature_fc2);
  for (std::size_t k = 0; k < w.towers.size(); ++k) {
    const std::string tower = "blocks." + std::to_string(k) + ".";
    table.matrix(tower + "position_embedding", w.towers[k].positions);
    for (std::size_t l = 0; l < w.towers[k].layers.size(); ++l) {
      auto& layer = w.towers[k].layers[l];
      const std::string prefix = tower + "layers." + std::to_string(l) + ".";
      table.norm(prefix + "attention_norm", layer.attention_norm, c.hidden);
      table.affine(prefix + "qkv_proj", layer.qkv);
      table.affine(prefix + "output_proj", layer.output);
      table.norm(prefix + "ffn_norm", layer.ffn_norm, c.hidden);
      table.affine(prefix + "ffn.fc1", layer.fc1);
      table.affine(prefix + "ffn.fc2", layer.fc2);
    }
    table.norm(tower + "final_norm", w.towers[k].final_norm, c.hidden);
  }
  table.affine("fusion.gate", w.fusion_gate);
  for (std::size_t x = 0; x < w.experts.size(); ++x)
    table.affine("experts." + std::to_string(x) + ".fc", w.experts[x]);
  for (std::size_t t = 0; t < w.tasks.size(); ++t) {
    const std::string task = "tasks." + std::to_string(t) + ".";
    table.affine(task + "gate", w.tasks[t].gate);
    table.affine(task + "tower.fc1", w.tasks[t].fc1);
    table.affine(task + "tower.fc2", w.tasks[t].fc2);
  }
  std::ranges::sort(table.slots, {}, &TensorSlot<Weights>::name);
  return std::move(table.slots);
}

std::string version_of(const ClimberModel& model) {
  VersionHash hash;
  hash.part("troupe climber 1");
  hash.part(config_text(model.config));
  for (const auto& tensor : tensors_of(model.config, model.weights)) {
    hash.part(tensor.name);
    hash.part(std::as_bytes(std::span(tensor.shape)));
    if (model.items && tensor.values == &model.weights.items.values)
      hash_sampled_rows(*model.items, hash);
    else
      hash.part(std::as_bytes(std::span(*tensor.values)));
  }
  return hash.hex();
}

// Mean and deviation. Matrices keep the length of the vector they are applied to; those that add to
// the residual stream are smaller. Biases and norms differ enough from 0 and 1 that omitting one
// changes the result.
std::pair<float, float> distribution(const ClimberConfig& config, const TensorSlot<ClimberWeights>& slot) {
  const std::string_view name = slot.name;
  if (slot.shape.size() == 1) return {name.find("norm.weight") != name.npos ? 1.0f : 0.0f, 0.2f};
  if (name.find("embedding") != name.npos) return {0.0f, 0.6f};
  const bool residual = name.ends_with("output_proj.weight") || name.ends_with("ffn.fc2.weight");
  const double scale = residual ? 1 / std::sqrt(2.0 * config.layers) : 1;
  return {0.0f, static_cast<float>(scale / std::sqrt(static_cast<double>(slot.shape[1])))};
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw_load_error(file, "cannot be written", "a writable path with enough free space");
}

}  // namespace

ClimberConfig flame_climber(std::uint32_t history) {
  ClimberConfig c{.items = 50'000, .actions = 6, .scenarios = 4};
  c.hidden = 128, c.heads = 4, c.layers = 12, c.intermediate = 512;
  c.towers = {{ClimberStrategy::recent, history / 2}, {ClimberStrategy::liked, history / 2}};
  c.experts = 4, c.expert_size = 128, c.head_size = 64;
  c.tasks = {"click", "like"};
  return c;
}

ClimberModel read_climber(const std::filesystem::path& directory, ItemRows items) {
  ClimberModel model;
  model.config = read_climber_config(directory);
  model.weights = empty_weights(model.config);
  refuse_other_weights(directory);
  const auto opened = std::make_shared<const SafetensorsFile>(directory / kWeights);
  const SafetensorsFile& file = *opened;
  const auto slots = tensors_of(model.config, model.weights);
  for (const auto& slot : slots) {
    const auto stored = file.tensors().find(slot.name);
    if (stored == file.tensors().end())
      throw_load_error(file.path(), "tensor " + in_quotes(slot.name) + " is missing",
                       "shape " + shape_text(slot.shape));
    if (stored->second.shape != slot.shape)
      throw_load_error(file.path(),
                       "tensor " + in_quotes(slot.name) + " has shape " + shape_text(stored->second.shape),
                       shape_text(slot.shape) + ", by " + kConfigFile);
  }
  for (const auto& [name, stored] : file.tensors())
    if (!std::ranges::binary_search(slots, name, {}, &TensorSlot<ClimberWeights>::name))
      throw_load_error(file.path(), "unknown tensor " + in_quotes(name),
                       "only tensors that the model of config.json has");
  for (const auto& slot : slots)
    if (items == ItemRows::in_memory || slot.values != &model.weights.items.values)
      *slot.values = file.values(slot.name);
  if (items == ItemRows::apart) {
    model.items = std::make_shared<MappedTable>(opened, std::string(item_tensor) + ".weight",
                                                model.config.items + 1, model.config.hidden);
    file.expect_scattered_reads();
  }
  model.version = version_of(model);
  return model;
}

ClimberModel random_climber(const ClimberConfig& config, std::uint64_t seed) {
  ClimberModel model{config, empty_weights(config), nullptr, ""};
  std::uint64_t stream = spread(seed);
  for (const auto& slot : tensors_of(config, model.weights)) {
    const auto [mean, deviation] = distribution(config, slot);
    slot.values->resize(slot.size());
    for (std::size_t i = 0; i < slot.values->size(); ++i)
      (*slot.values)[i] = mean + deviation * nearly_normal(spread(stream + i));
    stream = spread(stream ^ 0x5bd1e995u);
  }
  model.version = version_of(model);
  return model;
}

void write_climber(const ClimberModel& model, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  std::vector<NamedTensor> tensors;
  for (const auto& slot : tensors_of(model.config, model.weights))
    tensors.push_back({slot.name, slot.shape, *slot.values});
  write_text(directory / kConfigFile, config_text(model.config));
  write_safetensors(directory / kWeights, tensors, StoredAs::f32);
}

std::vector<double> climber_temperatures(const ClimberConfig& c, const ClimberWeights& w) {
  std::vector<double> table;
  const Affine &fc1 = w.temperature_fc1, &fc2 = w.temperature_fc2;
  const std::uint32_t half = c.temperature_embedding;
  std::vector<double> hidden(c.temperature_hidden);
  for (std::size_t k = 0; k < c.towers.size(); ++k)
    for (std::size_t r = 0; r < c.scenarios; ++r) {
      for (std::size_t i = 0; i < hidden.size(); ++i) {
        double sum = fc1.bias[i];
        const float* const row = &fc1.weight.values[i * 2 * half];
        for (std::size_t j = 0; j < half; ++j)
          sum += double(row[j]) * w.strategies.values[k * half + j] +
                 double(row[half + j]) * w.scenarios.values[r * half + j];
        hidden[i] = std::tanh(sum);
      }
      for (std::size_t g = 0; g < std::size_t{c.layers} * c.heads; ++g) {
        double sum = fc2.bias[g];
        for (std::size_t i = 0; i < hidden.size(); ++i)
          sum += double(fc2.weight.values[g * hidden.size() + i]) * hidden[i];
        table.push_back(std::sqrt(double(c.head_dim())) * std::exp(sum));
      }
    }
  return table;
}

}  // namespace troupe::kernels
