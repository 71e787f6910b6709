// Reads and checks the config.json of an HSTU model. A field that asks for other mathematics is
// refused by name.
#include "kernels/hstu/hstu_config.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
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

void must_hold(const JsonFields& fields, std::string_view key, bool only) {
  if (fields.maybe_boolean(key) != only) fields.fault(key, only ? "true" : "false");
}

// Returns which of `words` a field is; without a value the first one, if that is allowed.
std::size_t word_of(const JsonFields& fields, std::string_view key, std::initializer_list<const char*> words,
                    bool optional = false) {
  if (optional && !fields.has(key)) return 0;
  const std::optional<std::string> found = fields.maybe_text(key);
  std::string all;
  std::size_t at = 0;
  for (const char* const word : words) {
    if (found == word) return at;
    all += (at++ == 0 ? "" : " or ") + in_quotes(word);
  }
  fields.fault(key, all);
}

HstuLayerKind read_kind(const JsonFields& fields) {
  if (!fields.has("layer")) return HstuLayerKind::research;
  return word_of(fields, "layer", {"stu", "nvidia"}) == 0 ? HstuLayerKind::stu : HstuLayerKind::nvidia;
}

void read_shape(const JsonFields& fields, HstuConfig& config) {
  const bool research = config.kind == HstuLayerKind::research;
  config.softmax = research ? word_of(fields, "attention_activation", {"silu", "softmax"}) == 1
                            : word_of(fields, "attention_activation", {"silu"}) == 1;
  config.layers = count_member(fields, "num_hidden_layers", layers_max);
  config.hidden = count_member(fields, "hidden_size", width_max);
  config.heads = count_member(fields, "num_attention_heads", heads_max);
  if (config.softmax && config.heads != 1)
    fields.fault("num_attention_heads", "1, as the published softmax joins the heads");
  config.head_dim = count_member(fields, "attention_dim", config.softmax ? width_max : head_dim_max);
  config.value_dim = count_member(fields, "linear_dim", config.softmax ? width_max : head_dim_max);
  if (!research && config.value_dim != config.head_dim)
    fields.fault("linear_dim", "attention_dim, " + std::to_string(config.head_dim) + ", in this layer");
  if (config.value_dim == config.head_dim) config.value_dim = 0;
  config.vocabulary = count_member(fields, "num_items", items_max) + 1;
  const std::uint32_t history = count_member(fields, "max_sequence_length", positions_max);
  if (config.nvidia() && fields.has("max_output_length"))
    fields.fault("max_output_length", "nothing in this layer, whose rows are num_positions");
  const auto further =
      static_cast<std::uint32_t>(fields.maybe_integer("max_output_length", 1, positions_max).value_or(1));
  config.positions = history + further;
  if (further != 1 || config.nvidia()) config.history_max = history;
  fields.maybe_integer("pad_item_id", 0, 0);
}

void read_numbers(const JsonFields& fields, HstuConfig& config) {
  config.normaliser = fields.number("attention_normalizer", 1, 1e9);
  if (config.softmax && config.normaliser != 1) fields.fault("attention_normalizer", "1, with a softmax");
  config.scale = fields.number("attention_alpha", 1e-6, 1e6);
  config.epsilon = fields.number("layer_norm_eps", 0, 1);
}

void read_similarity(const JsonFields& fields, HstuConfig& config) {
  if (!config.nvidia() || config.tasks == 0 || fields.has("l2_norm_eps"))
    config.l2_epsilon = fields.number("l2_norm_eps", 1e-30, 1);
  if (!config.nvidia() || config.tasks == 0 || fields.has("temperature"))
    config.temperature = fields.number("temperature", 1e-6, 1e6);
  config.output_norm =
      static_cast<HstuOutputNorm>(word_of(fields, "output_norm", {"l2", "layer_norm"}, true));
  config.output_epsilon = fields.maybe_number("output_norm_eps", 1e-30, 1).value_or(0);
  config.item_l2 = word_of(fields, "item_norm", {"l2", "none"}, true) == 0;
  word_of(fields, "similarity", {"dot_product"}, true);
}

void read_head(const std::filesystem::path& file, const JsonFields& fields, HstuConfig& config) {
  const nlohmann::json* const head = fields.find("task_head");
  if (head == nullptr) return;
  if (!head->is_object()) fields.fault("task_head", "an object");
  const JsonFields inner(file, *head, "task_head");
  config.head_hidden = count_member(inner, "hidden", width_max);
  config.tasks = count_member(inner, "num_tasks", 1024);
  must_be(inner, "activation", "silu");
  inner.refuse_others();
}

std::vector<std::uint32_t> read_counts(const JsonFields& fields, std::string_view key, std::size_t least,
                                       std::size_t most) {
  const nlohmann::json* const list = fields.find(key);
  if (list == nullptr && least == 0) return {};
  const std::string expected =
      "a list of " + std::to_string(least) + " to 64 integers from 1 to " + std::to_string(most);
  if (list == nullptr || !list->is_array() || list->size() < least || list->size() > 64)
    fields.fault(key, expected);
  std::vector<std::uint32_t> counts;
  for (const nlohmann::json& one : *list) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() < 1 || one.get<std::uint64_t>() > most)
      fields.fault(key, expected);
    counts.push_back(one.get<std::uint32_t>());
  }
  return counts;
}

void read_layered_head(const std::filesystem::path& file, const JsonFields& fields, HstuConfig& config) {
  const nlohmann::json* const head = fields.find("task_head");
  if (head == nullptr) return;
  if (!head->is_object()) fields.fault("task_head", "an object");
  const JsonFields inner(file, *head, "task_head");
  config.head_layers = read_counts(inner, "layers", 1, width_max);
  config.tasks = config.head_layers.back();
  if (config.tasks > 1024) inner.fault("layers", "at most 1024 tasks at its end");
  config.head_layers.pop_back();
  config.head_activation = word_of(inner, "activation", {"relu", "gelu"}) == 0 ? HstuHeadActivation::relu
                                                                               : HstuHeadActivation::gelu;
  config.head_bias = inner.maybe_boolean("bias").value_or(true);
  must_be(inner, "input_norm", "l2");
  config.head_epsilon = inner.maybe_number("input_norm_eps", 1e-30, 1).value_or(1e-6);
  inner.refuse_others();
}

void read_bias(const std::filesystem::path& file, const JsonFields& fields, HstuConfig& config) {
  const nlohmann::json* const bias = fields.find("relative_attention_bias");
  if (bias == nullptr && config.softmax) {
    config.pair_bias = false;
    return;
  }
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
  config.time_buckets = count_member(inner, "num_time_buckets", 1024);
  config.bucket_divisor = inner.number("time_bucket_divisor", 1e-3, 100);
  if (config.bucket_divisor * config.time_buckets > 43)  // e^43 seconds fit 63 bits
    inner.fault("num_time_buckets", "at most 43 divided by time_bucket_divisor");
  inner.refuse_others();
}

void read_actions(const std::filesystem::path& file, const JsonFields& fields, HstuConfig& config) {
  const nlohmann::json* const actions = fields.find("action_embedding");
  if (actions == nullptr) return;
  if (!actions->is_object()) fields.fault("action_embedding", "an object");
  if (config.tasks > 0) fields.fault("action_embedding", "nothing beside a task_head");
  const JsonFields inner(file, *actions, "action_embedding");
  config.actions = count_member(inner, "num_actions", items_max);
  config.action_dim = count_member(inner, "dim", width_max);
  if (config.action_dim >= config.hidden) inner.fault("dim", "less than hidden_size");
  inner.refuse_others();
}

void read_research(const std::filesystem::path& file, const JsonFields& fields, HstuConfig& config) {
  read_head(file, fields, config);
  if (config.softmax && config.tasks > 0) fields.fault("task_head", "nothing, with a softmax");
  config.projections_silu = word_of(fields, "linear_activation", {"silu", "none"}) == 0;
  must_hold(fields, "layer_norm_affine", false);
  const std::optional<bool> concat = fields.maybe_boolean("concat_ua");
  if (!concat) fields.fault("concat_ua", "true or false");
  config.concat = *concat;
  must_be(fields, "input_scale", "sqrt(hidden_size)");
  must_be(fields, "position_embedding", "absolute");
  read_bias(file, fields, config);
  read_actions(file, fields, config);
}

void read_stu(const std::filesystem::path& file, const JsonFields& fields, HstuConfig& config) {
  read_head(file, fields, config);
  must_be(fields, "linear_activation", "silu_u_only");
  must_hold(fields, "layer_norm_affine", true);
  must_hold(fields, "concat_ua", true);
  must_be(fields, "input_scale", "sqrt(hidden_size)");
  must_be(fields, "position_embedding", "absolute");
  if (fields.has("relative_attention_bias")) fields.fault("relative_attention_bias", "null in this layer");
  if (fields.has("target_aware")) must_hold(fields, "target_aware", true);
  config.context_tokens = static_cast<std::uint32_t>(
      fields.maybe_integer("contextual_sequence_length", 0, config.history()).value_or(0));
  config.window =
      static_cast<std::uint32_t>(fields.maybe_integer("max_attention_length", 0, positions_max).value_or(0));
}

void read_nvidia(const std::filesystem::path& file, const JsonFields& fields, HstuConfig& config) {
  read_layered_head(file, fields, config);
  must_be(fields, "linear_activation", "silu");
  must_hold(fields, "concat_ua", false);
  if (fields.has("relative_attention_bias")) fields.fault("relative_attention_bias", "null in this layer");
  config.scales_input = word_of(fields, "input_scale", {"sqrt(hidden_size)", "none"}) == 0;
  const bool positioned = word_of(fields, "position_embedding", {"absolute", "none"}) == 0;
  config.positions = positioned ? count_member(fields, "num_positions", positions_max) : 0;
  config.input_affine = fields.maybe_boolean("input_norm_affine").value_or(true);
  config.output_affine = fields.maybe_boolean("output_norm_affine").value_or(true);
  config.uvqk_bias = fields.maybe_boolean("uvqk_bias").value_or(true);
  config.residual = fields.maybe_boolean("residual").value_or(true);
  if (word_of(fields, "event_tokens", {"item", "item_action"}, true) == 1)
    config.actions = count_member(fields, "num_actions", items_max);
  else if (fields.maybe_integer("num_actions", 0, items_max).value_or(0) > 0)
    fields.fault("num_actions", "0, or no such member, without event_tokens item_action");
  config.context_rows = read_counts(fields, "context_vocabulary", 0, items_max);
  if (std::uint64_t{config.vocabulary} + config.actions + config.context_vocabulary() > items_max * 4)
    fields.fault("context_vocabulary", "fewer rows in all");
  const nlohmann::json* const names = fields.find("context_features");
  if (names != nullptr && (!names->is_array() || names->size() != config.context_rows.size()))
    fields.fault("context_features", "one name for each table of context_vocabulary");
  if (fields.maybe_boolean("context_sees_history").value_or(true)) config.context_tokens = config.contexts();
}

}  // namespace

std::uint32_t HstuConfig::context_vocabulary() const {
  std::uint64_t rows = 0;
  for (const std::uint32_t table : context_rows) rows += table;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, UINT32_MAX));
}

HstuConfig hstu_config_of(const std::filesystem::path& file, const nlohmann::json& document) {
  const JsonFields fields(file, document);
  HstuConfig config;
  must_be(fields, "model_type", "hstu");
  config.kind = read_kind(fields);
  read_shape(fields, config);
  read_numbers(fields, config);
  if (config.kind == HstuLayerKind::research)
    read_research(file, fields, config);
  else if (config.production())
    read_stu(file, fields, config);
  else
    read_nvidia(file, fields, config);
  read_similarity(fields, config);
  refuse_other_members(fields);
  return config;
}

HstuConfig read_hstu_config(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "config.json";
  return hstu_config_of(file, read_json_file(file, config_bytes_max));
}

}  // namespace troupe::kernels
