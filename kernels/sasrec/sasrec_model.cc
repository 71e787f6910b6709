// Reads, writes and draws the weights of a SASRec model.
#include "kernels/sasrec/sasrec_model.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string_view>

#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/safetensors.h"
#include "kernels/checkpoint/version_hash.h"

namespace troupe::kernels {
namespace {

constexpr std::string_view item_tensor = "item_embedding.weight";
constexpr char weights_file[] = "model.safetensors";

struct SasrecTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<float>* values;
};

// Gives the weights their shapes, and lists them.
class SasrecTensors {
 public:
  SasrecTensors(const SasrecConfig& config, SasrecWeights& weights) {
    weights.layers.resize(config.layers);
    matrix(std::string(item_tensor), weights.items, config.vocabulary, config.hidden);
    matrix("position_embedding.weight", weights.positions, config.position_rows, config.hidden);
    for (std::uint32_t l = 0; l < config.layers; ++l) {
      const std::string prefix = "layers." + std::to_string(l) + ".";
      SasrecLayer& layer = weights.layers[l];
      affine(prefix + "qkv_proj", layer.qkv, layer.qkv_bias, 3 * config.hidden, config.hidden);
      affine(prefix + "output_proj", layer.output, layer.output_bias, config.hidden, config.hidden);
      affine(prefix + "ffn.fc1", layer.fc1, layer.fc1_bias, config.intermediate, config.hidden);
      affine(prefix + "ffn.fc2", layer.fc2, layer.fc2_bias, config.hidden, config.intermediate);
    }
  }
  const std::vector<SasrecTensor>& all() const { return tensors_; }

 private:
  void matrix(std::string name, Matrix& matrix, std::uint32_t rows, std::uint32_t columns) {
    matrix.rows = rows;
    matrix.columns = columns;
    tensors_.push_back({std::move(name), {rows, columns}, &matrix.values});
  }
  void affine(const std::string& name, Matrix& weight, std::vector<float>& bias, std::uint32_t rows,
              std::uint32_t columns) {
    matrix(name + ".weight", weight, rows, columns);
    tensors_.push_back({name + ".bias", {rows}, &bias});
  }

  std::vector<SasrecTensor> tensors_;
};

bool is_left_in_file(const SasrecTensor& tensor, ItemRows items) {
  return items == ItemRows::apart && tensor.name == item_tensor;
}

void read_sasrec_tensor(const SafetensorsFile& file, const SasrecTensor& tensor) {
  const auto stored = file.tensors().find(tensor.name);
  if (stored == file.tensors().end())
    throw_load_error(file.path(), "tensor " + in_quotes(tensor.name) + " is missing",
                     "shape " + shape_text(tensor.shape));
  if (stored->second.shape != tensor.shape)
    throw_load_error(file.path(),
                     "tensor " + in_quotes(tensor.name) + " has shape " + shape_text(stored->second.shape),
                     shape_text(tensor.shape) + ", by config.json");
  *tensor.values = file.values(tensor.name);
}

void read_sasrec_tensors(const SafetensorsFile& file, const SasrecTensors& tensors, ItemRows items) {
  std::set<std::string_view> known;
  for (const SasrecTensor& tensor : tensors.all()) {
    if (!is_left_in_file(tensor, items)) read_sasrec_tensor(file, tensor);
    known.insert(tensor.name);
  }
  for (const auto& [name, stored] : file.tensors())
    if (!known.contains(name))
      throw_load_error(file.path(), "unknown tensor " + in_quotes(name),
                       "only tensors that the model of config.json has");
}

// Returns all fields of a configuration that affect the numbers, as text.
std::string text_of(const SasrecConfig& c) {
  const nlohmann::json all{
      c.layers,         c.hidden,      c.heads,         c.intermediate, static_cast<int>(c.activation),
      c.vocabulary,     c.history_max, c.position_rows, c.epsilon,      static_cast<int>(c.output_norm),
      c.output_epsilon, c.item_l2,     c.l2_epsilon,    c.temperature};
  return all.dump();
}

std::string version_of(const SasrecModel& model, const SasrecTensors& tensors) {
  VersionHash hash;
  hash.part("troupe sasrec 1");
  hash.part(text_of(model.config));
  for (const SasrecTensor& tensor : tensors.all()) {
    hash.part(tensor.name);
    if (model.items && tensor.name == item_tensor)
      hash_sampled_rows(*model.items, hash);
    else
      hash.part(std::as_bytes(std::span(*tensor.values)));
  }
  return hash.hex();
}

}  // namespace

SasrecModel read_sasrec(const std::filesystem::path& directory, ItemRows items) {
  SasrecModel model{read_sasrec_config(directory), {}, nullptr, {}};
  const SasrecTensors tensors(model.config, model.weights);
  const auto file = std::make_shared<const SafetensorsFile>(directory / weights_file);
  read_sasrec_tensors(*file, tensors, items);
  if (items == ItemRows::apart) {
    model.items = std::make_shared<MappedTable>(file, std::string(item_tensor), model.config.vocabulary,
                                                model.config.hidden);
    file->expect_scattered_reads();
  }
  model.version = version_of(model, tensors);
  return model;
}

SasrecModel random_sasrec(const SasrecConfig& config, std::uint32_t seed) {
  SasrecModel model{config, {}, nullptr, {}};
  const SasrecTensors tensors(config, model.weights);
  std::mt19937 random(seed);
  for (const SasrecTensor& tensor : tensors.all()) {
    const bool is_matrix = tensor.shape.size() == 2;
    const bool is_table = tensor.name.find("embedding") != std::string::npos;
    const double size = !is_matrix ? 0.3 : is_table ? 0.5 : 1.5 / std::sqrt(double(tensor.shape[1]));
    std::normal_distribution<float> normal(0, static_cast<float>(size));
    tensor.values->resize(is_matrix ? tensor.shape[0] * tensor.shape[1] : tensor.shape[0]);
    for (float& value : *tensor.values) value = normal(random);
  }
  model.version = version_of(model, tensors);
  return model;
}

void write_sasrec_weights(const SasrecModel& model, const std::filesystem::path& directory) {
  SasrecWeights weights = model.weights;
  const SasrecTensors tensors(model.config, weights);
  std::vector<NamedTensor> named;
  for (const SasrecTensor& tensor : tensors.all())
    named.push_back({tensor.name, tensor.shape, std::span<const float>(*tensor.values)});
  write_safetensors(directory / weights_file, named, StoredAs::f32);
}

}  // namespace troupe::kernels
