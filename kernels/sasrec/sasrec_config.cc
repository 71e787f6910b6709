// Reads and checks the config.json of a SASRec model.
#include "kernels/sasrec/sasrec_config.h"

#include <string>
#include <string_view>

#include "kernels/checkpoint/config_members.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::kernels {
namespace {

// Limits far above any such model, and small enough that a product of two or three of them does not
// overflow.
constexpr std::uint64_t layers_max = 1024, heads_max = 1024, head_dim_max = 256, width_max = 1 << 16;
constexpr std::uint64_t items_max = std::uint64_t{1} << 26, positions_max = std::uint64_t{1} << 20;
constexpr std::uint64_t config_bytes_max = 1 << 20;

// Returns true for the first of two words; an absent field has the default.
bool is_first(const JsonFields& fields, std::string_view key, const std::string& first,
              const std::string& second, const std::string& usual) {
  const std::string found = fields.has(key) ? fields.maybe_text(key).value_or("") : usual;
  if (found != first && found != second) fields.fault(key, in_quotes(first) + " or " + in_quotes(second));
  return found == first;
}

void read_shape(const JsonFields& fields, SasrecConfig& config) {
  config.layers = count_member(fields, "num_hidden_layers", layers_max);
  config.hidden = count_member(fields, "hidden_size", width_max);
  config.heads = count_member(fields, "num_attention_heads", heads_max);
  if (config.hidden % config.heads != 0)
    fields.fault("num_attention_heads", "a divisor of hidden_size, " + std::to_string(config.hidden));
  if (config.head_dim() > head_dim_max)
    fields.fault("hidden_size", "at most " + std::to_string(head_dim_max) + " for each head");
  config.intermediate = count_member(fields, "intermediate_size", width_max);
  config.vocabulary = count_member(fields, "num_items", items_max) + 1;
  config.history_max = count_member(fields, "max_sequence_length", positions_max);
  config.position_rows =
      config.history_max +
      static_cast<std::uint32_t>(fields.maybe_integer("max_output_length", 0, positions_max).value_or(1));
  fields.maybe_integer("pad_item_id", 0, 0);
}

void read_similarity(const JsonFields& fields, SasrecConfig& config) {
  if (fields.has("similarity")) must_be(fields, "similarity", "dot_product");
  config.output_norm = is_first(fields, "output_norm", "l2", "layer_norm", "l2")
                           ? SasrecOutputNorm::l2
                           : SasrecOutputNorm::layer_norm;
  config.item_l2 = is_first(fields, "item_norm", "l2", "none", "l2");
  config.l2_epsilon = fields.number("l2_norm_eps", 1e-30, 1);
  config.output_epsilon = fields.maybe_number("output_norm_eps", 1e-30, 1).value_or(config.l2_epsilon);
  config.temperature = fields.number("temperature", 1e-6, 1e6);
}

}  // namespace

SasrecConfig sasrec_config_of(const std::filesystem::path& file, const nlohmann::json& document) {
  const JsonFields fields(file, document);
  SasrecConfig config;
  must_be(fields, "model_type", "sasrec");
  read_shape(fields, config);
  config.activation = is_first(fields, "hidden_activation", "relu", "gelu", "") ? SasrecActivation::relu
                                                                                : SasrecActivation::gelu;
  config.epsilon = fields.number("layer_norm_eps", 0, 1);
  must_be(fields, "input_scale", "sqrt(hidden_size)");
  must_be(fields, "position_embedding", "absolute");
  read_similarity(fields, config);
  if (fields.has("task_head")) fields.fault("task_head", "none, as such a model scores the next item");
  refuse_other_members(fields);
  return config;
}

SasrecConfig read_sasrec_config(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "config.json";
  return sasrec_config_of(file, read_json_file(file, config_bytes_max));
}

}  // namespace troupe::kernels
