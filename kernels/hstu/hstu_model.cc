// Reads an HSTU model's weights, or generates them from their names and indices, so that a model of
// serving size needs no file.
#include "kernels/hstu/hstu_model.h"

#include <cmath>
#include <functional>
#include <set>
#include <string_view>

#include "kernels/base/hash.h"
#include "kernels/checkpoint/file_kind.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/safetensors.h"
#include "kernels/checkpoint/version_hash.h"

namespace troupe::kernels {
namespace {

constexpr std::string_view item_tensor = "item_embedding.weight";
constexpr char weights_file[] = "model.safetensors", generator_file[] = "generator.json";
constexpr std::uint64_t generator_bytes_max = 16 << 20;

struct TensorPlace {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<float>* values;
};

class TensorTable {
 public:
  explicit TensorTable(const HstuConfig& config, HstuWeights& weights) {
    weights.layers.resize(config.layers);
    matrix(std::string(item_tensor), weights.items, config.vocabulary, config.item_columns());
    if (config.positions > 0)
      matrix("position_embedding.weight", weights.positions, config.positions, config.hidden);
    if (config.actions > 0)
      matrix("action_embedding.weight", weights.actions, config.actions,
             config.action_dim > 0 ? config.action_dim : config.hidden);
    weights.contexts.resize(config.contexts());
    for (std::uint32_t k = 0; k < config.contexts(); ++k)
      matrix("context_embedding." + std::to_string(k) + ".weight", weights.contexts[k],
             config.context_rows[k], config.hidden);
    for (std::uint32_t l = 0; l < config.layers; ++l)
      layer("layers." + std::to_string(l) + ".", config, weights.layers[l]);
    if (config.tasks > 0) head(config, weights);
  }
  const std::vector<TensorPlace>& all() const { return places_; }

 private:
  void head(const HstuConfig& config, HstuWeights& weights) {
    if (config.nvidia()) return layered_head(config, weights);
    matrix("task_head.fc1.weight", weights.fc1, config.head_hidden, config.hidden);
    vector("task_head.fc1.bias", weights.fc1_bias, config.head_hidden);
    matrix("task_head.fc2.weight", weights.fc2, config.tasks, config.head_hidden);
    vector("task_head.fc2.bias", weights.fc2_bias, config.tasks);
  }
  void layered_head(const HstuConfig& config, HstuWeights& weights) {
    const std::size_t layers = config.head_layers.size() + 1;
    weights.head.resize(layers);
    weights.head_bias.resize(layers);
    std::uint32_t inputs = config.hidden;
    for (std::size_t i = 0; i < layers; ++i) {
      const std::uint32_t outputs = i + 1 < layers ? config.head_layers[i] : config.tasks;
      const std::string prefix = "task_head.layers." + std::to_string(i);
      matrix(prefix + ".weight", weights.head[i], outputs, inputs);
      if (config.head_bias) vector(prefix + ".bias", weights.head_bias[i], outputs);
      inputs = outputs;
    }
  }
  void layer(const std::string& prefix, const HstuConfig& config, HstuLayer& layer) {
    matrix(prefix + "uvqk_proj.weight", layer.uvqk, config.projected(), config.hidden);
    if (config.adds_projected()) vector(prefix + "uvqk_proj.bias", layer.uvqk_bias, config.projected());
    matrix(prefix + "output_proj.weight", layer.output, config.hidden, config.mixed());
    if (config.adds_output()) vector(prefix + "output_proj.bias", layer.output_bias, config.hidden);
    if (config.biased()) {
      vector(prefix + "relative_attention_bias.position_weight", layer.position_weight,
             2 * config.positions - 1);
      vector(prefix + "relative_attention_bias.time_weight", layer.time_weight, config.time_buckets + 1);
    }
    if (config.norms_input()) {
      vector(prefix + "input_norm.weight", layer.input_norm, config.hidden);
      vector(prefix + "input_norm.bias", layer.input_norm_bias, config.hidden);
    }
    if (!config.norms_output()) return;
    vector(prefix + "output_norm.weight", layer.output_norm, config.width());
    vector(prefix + "output_norm.bias", layer.output_norm_bias, config.width());
  }
  void matrix(std::string name, Matrix& matrix, std::uint32_t rows, std::uint32_t columns) {
    matrix.rows = rows;
    matrix.columns = columns;
    places_.push_back({std::move(name), {rows, columns}, &matrix.values});
  }
  void vector(std::string name, std::vector<float>& values, std::uint64_t length) {
    places_.push_back({std::move(name), {length}, &values});
  }

  std::vector<TensorPlace> places_;
};

bool stays_apart(const TensorPlace& place, ItemRows items) {
  return items == ItemRows::apart && place.name == item_tensor;
}

std::uint64_t size_of(const TensorPlace& place) {
  return place.shape.size() == 2 ? place.shape[0] * place.shape[1] : place.shape[0];
}

// Distribution of a tensor's numbers: base + integer * 2^(log2_scale - 7), the integer from -128 to
// 127.
struct Drawn {
  int log2_scale = 0, base = 0;
};

Drawn drawn(const HstuConfig& config, std::string_view name) {
  if (name.ends_with("norm.weight")) return {-2, 1};
  if (name.ends_with(".bias") || name == "position_embedding.weight" || name == "task_head.fc2.weight")
    return {-2, 0};
  if (name.find("relative_attention_bias") != name.npos) return {0, 0};
  return {name.ends_with("output_proj.weight") && config.production() ? -5 : -4, 0};
}

int drawn_integer(std::uint64_t seed, std::uint64_t index) {
  return static_cast<int>(spread(seed + index * splitmix64_step) >> 56) - 128;
}

// Generates the values of a tensor from an index on.
class DrawnValues {
 public:
  DrawnValues(const HstuConfig& config, std::string_view name)
      : how_(drawn(config, name)), seed_(fnv1a(name)) {}
  void write(std::uint64_t first, std::span<float> out) const {
    const float step = std::ldexp(1.0f, how_.log2_scale - 7), base = static_cast<float>(how_.base);
    for (std::uint64_t i = 0; i < out.size(); ++i)
      out[i] = base + static_cast<float>(drawn_integer(seed_, first + i)) * step;
  }

 private:
  const Drawn how_;
  const std::uint64_t seed_;
};

void generate(const HstuConfig& config, const TensorPlace& place) {
  place.values->resize(size_of(place));
  DrawnValues(config, place.name).write(0, *place.values);
}

// Item rows that are generated when they are fetched.
class GeneratedItems final : public EmbeddingTable {
 public:
  explicit GeneratedItems(const HstuConfig& config)
      : rows_(config.vocabulary), columns_(config.item_columns()), values_(config, item_tensor) {}
  std::uint32_t rows() const override { return rows_; }
  std::uint32_t columns() const override { return columns_; }
  void fetch(std::span<const Token> rows, float* out) override {
    for (std::size_t i = 0; i < rows.size(); ++i)
      values_.write(static_cast<std::uint64_t>(rows[i]) * columns_, {out + i * columns_, columns_});
  }

 private:
  const std::uint32_t rows_, columns_;
  const DrawnValues values_;
};

// Checks that a generator file describes a tensor of this shape as it is generated here.
void check_generator(const std::filesystem::path& file, const nlohmann::json& document,
                     const HstuConfig& config, const TensorPlace& place) {
  const JsonFields tensors(file, document);
  const nlohmann::json* const entry = tensors.find(place.name);
  if (entry == nullptr) return;
  if (!entry->is_object()) tensors.fault(place.name, "an object");
  const JsonFields fields(file, *entry, place.name);
  const nlohmann::json* const shape = fields.find("shape");
  if (shape == nullptr || *shape != nlohmann::json(place.shape))
    return;  // another model's tensor of that name
  const auto must_be = [&](const char* key, const nlohmann::json& value) {
    const nlohmann::json* const found = fields.find(key);
    if (found != nullptr && *found != value) fields.fault(key, value.dump() + ", the generated value");
  };
  const Drawn how = drawn(config, place.name);
  must_be("log2_scale", how.log2_scale);
  must_be("base", how.base);
  nlohmann::json first = nlohmann::json::array();
  for (std::uint64_t i = 0; i < 4; ++i) first.push_back(drawn_integer(fnv1a(place.name), i));
  must_be("first4_integers", first);
}

void read_tensor(const SafetensorsFile& file, const TensorPlace& place) {
  const auto stored = file.tensors().find(place.name);
  if (stored == file.tensors().end())
    throw_load_error(file.path(), "tensor " + in_quotes(place.name) + " is missing",
                     "shape " + shape_text(place.shape));
  if (stored->second.shape != place.shape)
    throw_load_error(file.path(),
                     "tensor " + in_quotes(place.name) + " has shape " + shape_text(stored->second.shape),
                     shape_text(place.shape) + ", by config.json");
  *place.values = file.values(place.name);
}

void read_tensors(const SafetensorsFile& file, const std::vector<TensorPlace>& places, ItemRows items) {
  std::set<std::string_view> known;
  for (const TensorPlace& place : places) {
    if (!stays_apart(place, items)) read_tensor(file, place);
    known.insert(place.name);
  }
  for (const auto& [name, stored] : file.tensors())
    if (!known.contains(name))
      throw_load_error(file.path(), "unknown tensor " + in_quotes(name),
                       "only tensors that the model of config.json has");
}

// Returns the fields that configurations have had from the beginning, as text.
std::string text_of(const HstuConfig& c) {
  const nlohmann::json all{c.production(), c.layers,         c.hidden,     c.heads,       c.head_dim,
                           c.vocabulary,   c.positions,      c.normaliser, c.scale,       c.epsilon,
                           c.time_buckets, c.bucket_divisor, c.l2_epsilon, c.temperature, c.head_hidden,
                           c.tasks,        c.context_tokens, c.window};
  return all.dump();
}

// Returns all other fields that affect the numbers.
nlohmann::json further_fields(const HstuConfig& c) {
  return {{"nvidia", c.nvidia()},
          {"value_dim", c.value_dim},
          {"history_max", c.history_max},
          {"softmax", c.softmax},
          {"projections_silu", c.projections_silu},
          {"concat", c.concat},
          {"pair_bias", c.pair_bias},
          {"actions", c.actions},
          {"action_dim", c.action_dim},
          {"output_norm", c.output_norm},
          {"output_epsilon", c.output_epsilon},
          {"item_l2", c.item_l2},
          {"head_layers", c.head_layers},
          {"head_activation", c.head_activation},
          {"head_bias", c.head_bias},
          {"head_epsilon", c.head_epsilon},
          {"input_affine", c.input_affine},
          {"output_affine", c.output_affine},
          {"uvqk_bias", c.uvqk_bias},
          {"residual", c.residual},
          {"scales_input", c.scales_input},
          {"context_rows", c.context_rows}};
}

// Models without further fields keep the version that they had before these existed.
VersionHash begun_version(const HstuConfig& config) {
  VersionHash hash;
  hash.part("troupe hstu 1");
  hash.part(text_of(config));
  const nlohmann::json further = further_fields(config);
  if (further != further_fields(HstuConfig())) hash.part(further.dump());
  return hash;
}

}  // namespace

HstuModel generated_hstu(const HstuConfig& config, ItemRows items) {
  HstuModel model{config, {}, nullptr, {}};
  VersionHash hash = begun_version(config);
  hash.part("generated 1");
  const TensorTable table(config, model.weights);
  for (const TensorPlace& place : table.all())
    if (!stays_apart(place, items)) generate(config, place);
  if (items == ItemRows::apart) model.items = std::make_shared<GeneratedItems>(config);
  model.version = hash.hex();
  return model;
}

HstuModel read_hstu(const std::filesystem::path& directory, ItemRows items) {
  const HstuConfig config = read_hstu_config(directory);
  std::error_code error;
  if (std::filesystem::exists(directory / generator_file, error)) {
    if (std::filesystem::exists(directory / weights_file, error))
      throw_load_error(directory, std::string("has both ") + weights_file + " and " + generator_file,
                       "one of them");
    const nlohmann::json document = read_json_file(directory / generator_file, generator_bytes_max);
    HstuModel model{config, {}, nullptr, {}};
    const TensorTable table(config, model.weights);
    for (const TensorPlace& place : table.all())
      check_generator(directory / generator_file, document, config, place);
    return generated_hstu(config, items);
  }
  HstuModel model{config, {}, nullptr, {}};
  const TensorTable table(config, model.weights);
  refuse_other_weights(directory);
  const auto file = std::make_shared<const SafetensorsFile>(directory / weights_file);
  read_tensors(*file, table.all(), items);
  if (items == ItemRows::apart)
    model.items = std::make_shared<MappedTable>(file, std::string(item_tensor), config.vocabulary,
                                                config.item_columns());
  VersionHash hash = begun_version(config);
  if (items == ItemRows::apart) file->expect_scattered_reads();
  for (const TensorPlace& place : table.all()) {
    hash.part(place.name);
    if (stays_apart(place, items))
      hash_sampled_rows(*model.items, hash);
    else
      hash.part(std::as_bytes(std::span(*place.values)));
  }
  model.version = hash.hex();
  return model;
}

}  // namespace troupe::kernels
