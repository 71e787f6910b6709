// Reads a decoder's config.json in Hugging Face form, and gives the text of one. Values outside the
// limits, and fields that would change the mathematics, are refused with the field's name.
#include "kernels/checkpoint/hf_config.h"

#include <array>

#include "kernels/base/check.h"
#include "kernels/checkpoint/config_members.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::kernels {
namespace {

// Limits far above any decoder of this kind, and small enough that a product of two or three of
// them does not overflow.
constexpr std::uint64_t kLayersMax = 1024, kHeadsMax = 1024, kHeadDimMax = 256;
constexpr std::uint64_t kWidthMax = std::uint64_t{1} << 20;       // hidden and intermediate
constexpr std::uint64_t kVocabularyMax = std::uint64_t{1} << 26;  // item ids can be vocabulary rows
constexpr std::uint64_t kPositionsMax = std::uint64_t{1} << 24;
constexpr std::uint64_t kConfigBytesMax = std::uint64_t{1} << 20;

struct NamedFamily {
  Family family;
  const char* model_type;
  const char* architecture;
};
constexpr std::array<NamedFamily, 3> kFamilies{{{Family::qwen2, "qwen2", "Qwen2ForCausalLM"},
                                                {Family::qwen3, "qwen3", "Qwen3ForCausalLM"},
                                                {Family::llama, "llama", "LlamaForCausalLM"}}};

std::uint32_t count(const JsonFields& fields, std::string_view key, std::uint64_t most) {
  return static_cast<std::uint32_t>(fields.integer(key, 1, most));
}

Family read_family(const JsonFields& fields) {
  const auto model_type = fields.maybe_text("model_type");
  for (const NamedFamily& known : kFamilies)
    if (model_type == known.model_type) return known.family;
  fields.fault("model_type", "one of \"qwen2\", \"qwen3\", \"llama\"");
}

// A checkpoint of another class has another head or another mask, such as Qwen3ForRewardModel, though
// its model_type is the same.
void check_architecture(const JsonFields& fields, Family family) {
  const nlohmann::json* const names = fields.find("architectures");
  if (!names) return;
  const std::string known = kFamilies[static_cast<std::size_t>(family)].architecture;
  if (!names->is_array() || names->empty()) fields.fault("architectures", "[" + in_quotes(known) + "]");
  for (const nlohmann::json& name : *names)
    if (name != known) fields.fault("architectures", "[" + in_quotes(known) + "], found " + describe(name));
}

void read_shape(const JsonFields& fields, DecoderConfig& config) {
  config.layers = count(fields, "num_hidden_layers", kLayersMax);
  config.hidden = count(fields, "hidden_size", kWidthMax);
  config.intermediate = count(fields, "intermediate_size", kWidthMax);
  config.vocabulary = count(fields, "vocab_size", kVocabularyMax);
  config.positions_max = count(fields, "max_position_embeddings", kPositionsMax);
  config.heads = count(fields, "num_attention_heads", kHeadsMax);
  config.kv_heads = static_cast<std::uint32_t>(
      fields.maybe_integer("num_key_value_heads", 1, kHeadsMax).value_or(config.heads));
  if (config.heads % config.kv_heads != 0)
    fields.fault("num_key_value_heads", "a divisor of num_attention_heads, " + std::to_string(config.heads));
  const auto head_dim = fields.maybe_integer("head_dim", 2, kHeadDimMax);
  if (!head_dim && config.hidden % config.heads != 0)
    fields.fault("num_attention_heads",
                 "a divisor of hidden_size, " + std::to_string(config.hidden) + ", as there is no head_dim");
  config.head_dim = static_cast<std::uint32_t>(head_dim.value_or(config.hidden / config.heads));
  if (config.head_dim % 2 != 0 || config.head_dim > kHeadDimMax)
    fields.fault(head_dim ? "head_dim" : "hidden_size",
                 "an even number up to " + std::to_string(kHeadDimMax) + " for each head");
}

void read_llama3_scaling(const JsonFields& fields, RopeScaling& scaling) {
  scaling.low_frequency_factor = fields.number("low_freq_factor", 1e-3, 1e3);
  scaling.high_frequency_factor = fields.number("high_freq_factor", 1e-3, 1e3);
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor)
    fields.fault("high_freq_factor", "more than low_freq_factor");
  scaling.original_positions =
      static_cast<double>(fields.integer("original_max_position_embeddings", 1, kPositionsMax));
}

// `fields` is the object under "rope_scaling" or, in newer files, "rope_parameters".
RopeScaling read_scaling(const JsonFields& fields) {
  const char* const key = fields.has("rope_type") ? "rope_type" : "type";
  const auto type = fields.maybe_text(key);
  RopeScaling scaling;
  if (type == "default") return scaling;
  if (type != "linear" && type != "llama3") fields.fault(key, "one of \"default\", \"linear\", \"llama3\"");
  scaling.kind = type == "linear" ? RopeScaling::Kind::linear : RopeScaling::Kind::llama3;
  scaling.factor = fields.number("factor", 1, 1e4);
  if (scaling.kind == RopeScaling::Kind::llama3) read_llama3_scaling(fields, scaling);
  return scaling;
}

void read_rope(const std::filesystem::path& file, const JsonFields& fields, DecoderConfig& config) {
  constexpr double kThetaLeast = 1, kThetaMost = 1e12;
  config.rope_theta = fields.maybe_number("rope_theta", kThetaLeast, kThetaMost).value_or(config.rope_theta);
  const bool scaled = fields.has("rope_scaling"), parameters = fields.has("rope_parameters");
  if (scaled && parameters) fields.fault("rope_parameters", "only one of rope_scaling and rope_parameters");
  if (scaled || parameters) {
    const char* const key = scaled ? "rope_scaling" : "rope_parameters";
    const JsonFields rope(file, *fields.find(key), key);
    config.rope_scaling = read_scaling(rope);
    config.rope_theta = rope.maybe_number("rope_theta", kThetaLeast, kThetaMost).value_or(config.rope_theta);
    if (rope.maybe_number("partial_rotary_factor", 0, 1).value_or(1) != 1)
      rope.fault("partial_rotary_factor", "1: all of a head is rotated");
    constexpr std::array<std::string_view, 5> other_kinds{"factor", "low_freq_factor", "high_freq_factor",
                                                          "original_max_position_embeddings", "type"};
    rope.refuse_others(other_kinds);
  }
  if (fields.maybe_number("partial_rotary_factor", 0, 1).value_or(1) != 1)
    fields.fault("partial_rotary_factor", "1: all of a head is rotated");
}

// A sliding window that covers all positions has no effect and is accepted.
void refuse_windows(const JsonFields& fields, const DecoderConfig& config) {
  const std::uint64_t window = fields.maybe_integer("sliding_window", 0, kPositionsMax).value_or(4096);
  if (window >= config.positions_max) return;
  if (fields.maybe_boolean("use_sliding_window").value_or(false))
    fields.fault("use_sliding_window", "false, or a sliding_window of at least max_position_embeddings, " +
                                           std::to_string(config.positions_max));
  const nlohmann::json* const types = fields.find("layer_types");
  if (!types) return;
  if (!types->is_array()) fields.fault("layer_types", "an array");
  for (const nlohmann::json& type : *types)
    if (type != "full_attention") fields.fault("layer_types", "only \"full_attention\"");
}

void refuse_what_is_not_computed(const JsonFields& fields) {
  for (const NeutralMember& member : neutral_members) member.check(fields);
  if (fields.maybe_text("hidden_act").value_or("silu") != "silu") fields.fault("hidden_act", "\"silu\"");
  if (fields.maybe_boolean("mlp_bias").value_or(false)) fields.fault("mlp_bias", "false");
  if (fields.has("quantization_config"))
    fields.fault("quantization_config", "none: weights in F32, F16 or BF16");
}

nlohmann::ordered_json scaling_json(const RopeScaling& scaling) {
  if (scaling.kind == RopeScaling::Kind::none) return nullptr;
  if (scaling.kind == RopeScaling::Kind::linear) return {{"rope_type", "linear"}, {"factor", scaling.factor}};
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_frequency_factor},
          {"high_freq_factor", scaling.high_frequency_factor},
          {"original_max_position_embeddings", static_cast<std::uint64_t>(scaling.original_positions)}};
}

const char* torch_dtype(StoredAs stored_as) {
  if (stored_as == StoredAs::f32) return "float32";
  return stored_as == StoredAs::f16 ? "float16" : "bfloat16";
}

}  // namespace

DecoderConfig decoder_config_of(const std::filesystem::path& file, const nlohmann::json& document) {
  const JsonFields fields(file, document);
  DecoderConfig config;
  config.family = read_family(fields);
  check_architecture(fields, config.family);
  read_shape(fields, config);
  config.rms_epsilon = fields.maybe_number("rms_norm_eps", 1e-12, 1e-1).value_or(config.rms_epsilon);
  read_rope(file, fields, config);
  const bool attention_bias = fields.maybe_boolean("attention_bias").value_or(false);
  config.qkv_bias = config.family == Family::qwen2 || attention_bias;
  config.qk_norm = config.family == Family::qwen3;
  config.tied_embeddings = fields.maybe_boolean("tie_word_embeddings").value_or(false);
  refuse_windows(fields, config);
  refuse_what_is_not_computed(fields);
  refuse_other_members(fields, window_members);
  return config;
}

DecoderConfig read_decoder_config(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kConfigFile;
  return decoder_config_of(file, read_json_file(file, kConfigBytesMax));
}

std::string config_text(const DecoderConfig& config, StoredAs stored_as) {
  const NamedFamily& named = kFamilies[static_cast<std::size_t>(config.family)];
  TROUPE_CHECK(named.family == config.family, "kFamilies is in the order of Family");
  const nlohmann::ordered_json document{
      {"architectures", nlohmann::ordered_json::array({named.architecture})},
      {"model_type", named.model_type},
      {"vocab_size", config.vocabulary},
      {"hidden_size", config.hidden},
      {"intermediate_size", config.intermediate},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_dim},
      {"hidden_act", "silu"},
      {"max_position_embeddings", config.positions_max},
      {"rms_norm_eps", config.rms_epsilon},
      {"rope_theta", config.rope_theta},
      {"rope_scaling", scaling_json(config.rope_scaling)},
      {"attention_bias", config.qkv_bias},
      {"tie_word_embeddings", config.tied_embeddings},
      {"use_sliding_window", false},
      {"torch_dtype", torch_dtype(stored_as)}};
  return document.dump(2) + "\n";
}

}  // namespace troupe::kernels
