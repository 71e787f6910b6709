// Reads and checks the config.json of an HSTU model. A field that asks for other mathematics is
// refused by name.
#include "kernels/hstu/hstu_config.h"

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

std::uint32_t count(const JsonFields& fields, std::string_view key, std::uint64_t most) {
  return static_cast<std::uint32_t>(fields.integer(key, 1, most));
}

// Checks a field that names a method of computing: only the one value that is implemented is
// accepted.
void must_be(const JsonFields& fields, std::string_view key, const std::string& only) {
  if (fields.maybe_text(key) != only) fields.fault(key, in_quotes(only));
}
void must_hold(const JsonFields& fields, std::string_view key, bool only) {
  if (fields.maybe_boolean(key) != only) fields.fault(key, only ? "true" : "false");
}

void read_shape(const JsonFields& fields, HstuConfig& config) {
  config.layers = count(fields, "num_hidden_layers", layers_max);
  config.hidden = count(fields, "hidden_size", width_max);
  config.heads = count(fields, "num_attention_heads", heads_max);
  config.head_dim = count(fields, "attention_dim", head_dim_max);
  if (fields.integer("linear_dim", 1, width_max) != config.head_dim)
    fields.fault("linear_dim", "attention_dim, " + std::to_string(config.head_dim) +
                                   ", as pages hold keys and values of one width");
  config.vocabulary = count(fields, "num_items", items_max) + 1;
  config.positions = count(fields, "max_sequence_length", positions_max) + 1;
  fields.maybe_integer("pad_item_id", 0, 0);
}

void read_numbers(const JsonFields& fields, HstuConfig& config) {
  config.normaliser = fields.number("attention_normalizer", 1, 1e9);
  config.scale = fields.number("attention_alpha", 1e-6, 1e6);
  config.epsilon = fields.number("layer_norm_eps", 0, 1);
  config.l2_epsilon = fields.number("l2_norm_eps", 1e-30, 1);
  config.temperature = fields.number("temperature", 1e-6, 1e6);
}

void read_head(const std::filesystem::path& file, const JsonFields& fields, HstuConfig& config) {
  const nlohmann::json* const head = fields.find("task_head");
  if (head == nullptr) return;
  if (!head->is_object()) fields.fault("task_head", "an object");
  const JsonFields inner(file, *head, "task_head");
  config.head_hidden = count(inner, "hidden", width_max);
  config.tasks = count(inner, "num_tasks", 1024);
  must_be(inner, "activation", "silu");
  inner.refuse_others();
}

void read_bias(const std::filesystem::path& file, const JsonFields& fields, HstuConfig& config) {
  const nlohmann::json* const bias = fields.find("relative_attention_bias");
  if (bias == nullptr || !bias->is_object()) fields.fault("relative_attention_bias", "an object");
  const JsonFields inner(file, *bias, "relative_attention_bias");
  must_be(inner, "type", "bucketed_time_and_position");
  must_be(inner, "time_bucket_function", "log");
  must_be(inner, "time_reference", "next");
  must_hold(inner, "per_layer", true);
  must_hold(inner, "shared_by_heads", true);
  inner.integer("max_positions", config.positions, config.positions);
  const std::uint64_t position_buckets = 2 * std::uint64_t{config.positions} - 1;
  inner.maybe_integer("num_position_buckets", position_buckets, position_buckets);
  config.time_buckets = count(inner, "num_time_buckets", 1024);
  config.bucket_divisor = inner.number("time_bucket_divisor", 1e-3, 100);
  if (config.bucket_divisor * config.time_buckets > 43)  // e^43 seconds fit 63 bits
    inner.fault("num_time_buckets", "at most 43 divided by time_bucket_divisor");
  inner.refuse_others();
}

}  // namespace

HstuConfig hstu_config_of(const std::filesystem::path& file, const nlohmann::json& document) {
  const JsonFields fields(file, document);
  HstuConfig config;
  must_be(fields, "model_type", "hstu");
  if (fields.has("layer")) must_be(fields, "layer", "stu");
  config.production = fields.has("layer");
  read_shape(fields, config);
  read_numbers(fields, config);
  read_head(file, fields, config);
  must_be(fields, "attention_activation", "silu");
  must_be(fields, "linear_activation", config.production ? "silu_u_only" : "silu");
  must_hold(fields, "layer_norm_affine", config.production);
  must_hold(fields, "concat_ua", config.production);
  must_be(fields, "input_scale", "sqrt(hidden_size)");
  must_be(fields, "position_embedding", "absolute");
  if (!config.production) {
    read_bias(file, fields, config);
    refuse_other_members(fields);
    return config;
  }
  if (fields.has("relative_attention_bias")) fields.fault("relative_attention_bias", "null in this layer");
  if (fields.has("target_aware")) must_hold(fields, "target_aware", true);
  config.context_tokens = static_cast<std::uint32_t>(
      fields.maybe_integer("contextual_sequence_length", 0, config.positions - 1).value_or(0));
  config.window =
      static_cast<std::uint32_t>(fields.maybe_integer("max_attention_length", 0, positions_max).value_or(0));
  refuse_other_members(fields);
  return config;
}

HstuConfig read_hstu_config(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "config.json";
  return hstu_config_of(file, read_json_file(file, config_bytes_max));
}

}  // namespace troupe::kernels
