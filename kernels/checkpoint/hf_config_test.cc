#include "kernels/checkpoint/hf_config.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/checkpoint/config_members.h"
#include "kernels/testing/takes_test.h"
#include "kernels/testing/test_folder.h"

namespace troupe::kernels {
namespace hf_config_test {

using nlohmann::json;

json llama() {
  return {{"model_type", "llama"},         {"vocab_size", 100},      {"hidden_size", 64},
          {"intermediate_size", 96},       {"num_hidden_layers", 2}, {"num_attention_heads", 4},
          {"max_position_embeddings", 64}, {"rms_norm_eps", 1e-5}};
}

DecoderConfig read(const json& document) {
  const TestFolder folder;
  folder.write("config.json", document.dump());
  return read_decoder_config(folder.path());
}

// Merges `changes` into the Llama configuration (a null removes nothing: it stays null).
json with(const json& changes) {
  json document = llama();
  document.update(changes);
  return document;
}

// Returns the error for a configuration, without the folder's name.
std::string fault(const json& document) {
  const std::string message = load_error_of([&] { read(document); });
  const std::size_t at = message.find("config.json: ");
  return at == std::string::npos ? message : message.substr(at);
}

TEST_CASE("hf config: an absent field has Hugging Face's default") {
  const DecoderConfig config = read(llama());
  CHECK(config.family == Family::llama);
  CHECK(config.kv_heads == 4);
  CHECK(config.head_dim == 16);
  CHECK(config.rope_theta == 10000);
  CHECK(config.rms_epsilon == 1e-5);
  CHECK(config.rope_scaling.kind == RopeScaling::Kind::none);
  CHECK_FALSE(config.qkv_bias);
  CHECK_FALSE(config.qk_norm);
  CHECK_FALSE(config.tied_embeddings);
  CHECK(read(with({{"head_dim", nullptr}, {"rope_scaling", nullptr}})).head_dim == 16);
}

const char taken_of_llama[] =
    R"takes(/attention_bias takes null true false nothing; true or false
/head_dim takes null 2 2 256 nothing; an even number up to 256 for each head; an integer from 2 to 256
/hidden_act takes null nothing; "silu"; a string
/hidden_size takes 1 2 5 1 1048576; an integer from 1 to 1048576
/intermediate_size takes 1 2 5 1 1048576; an integer from 1 to 1048576
/layer_types/0 takes; only "full_attention"
/max_position_embeddings takes 1 2 5 1 16777216; an integer from 1 to 16777216
/mlp_bias takes null false nothing; false; true or false
/model_type takes; a string; one of "qwen2", "qwen3", "llama"
/num_attention_heads takes 2 1024; a divisor of num_attention_heads, 1; )takes"
    R"takes(a divisor of num_attention_heads, 5; an integer from 1 to 1024
/num_hidden_layers takes 1 2 5 1 1024; an integer from 1 to 1024
/num_key_value_heads takes null 1 2 1 nothing; a divisor of num_attention_heads, 4; an integer from 1 to 1024
/partial_rotary_factor takes null 1 nothing; 1: all of a head is rotated; a number from 0 to 1
/rms_norm_eps takes null nothing; a number from 9.9999999999999998e-13 to 0.10000000000000001
/rope_scaling/factor takes 1 2 5; a number from 1 to 10000
/rope_scaling/high_freq_factor takes 2 5; a number from 0.001 to 1000; more than low_freq_factor
/rope_scaling/low_freq_factor takes 1 2 5 0.5; a number from 0.001 to 1000
/rope_scaling/original_max_position_embeddings takes 1 2 5 1 16777216; an integer from 1 to 16777216
/rope_scaling/rope_type takes; a string; one of "default", "linear", "llama3"
/rope_theta takes null 1 2 5 nothing; a number from 1 to 1000000000000
/sliding_window takes null 0 1 2 5 0 0 16777216 nothing; an integer from 0 to 16777216
/tie_word_embeddings takes null true false nothing; true or false
/use_sliding_window takes null false nothing; )takes"
    R"takes(false, or a sliding_window of at least max_position_embeddings, 64; true or false
/vocab_size takes 1 2 5 1 67108864; an integer from 1 to 67108864
)takes";

TEST_CASE("hf config: each field accepts values within its limits, and its error names them") {
  const json all = with({{"num_key_value_heads", 2},
                         {"head_dim", 16},
                         {"rope_theta", 1e6},
                         {"rope_scaling",
                          {{"rope_type", "llama3"},
                           {"factor", 8},
                           {"low_freq_factor", 1.5},
                           {"high_freq_factor", 7.0},
                           {"original_max_position_embeddings", 4096}}},
                         {"attention_bias", false},
                         {"tie_word_embeddings", true},
                         {"partial_rotary_factor", 1},
                         {"sliding_window", 32},
                         {"use_sliding_window", false},
                         {"layer_types", {"full_attention"}},
                         {"hidden_act", "silu"},
                         {"mlp_bias", false}});
  CHECK(takes(all, [](const json& document) {
          return load_error_of([&] { decoder_config_of("c", document); });
        }) == taken_of_llama);
}

TEST_CASE("hf config: a configuration is written in Hugging Face's terms") {
  DecoderConfig config =
      read(with({{"num_key_value_heads", 2}, {"tie_word_embeddings", true}, {"rope_theta", 5e5}}));
  const auto written = json::parse(config_text(config, StoredAs::bf16));
  CHECK(written == json{{"architectures", {"LlamaForCausalLM"}},
                        {"model_type", "llama"},
                        {"vocab_size", 100},
                        {"hidden_size", 64},
                        {"intermediate_size", 96},
                        {"num_hidden_layers", 2},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 2},
                        {"head_dim", 16},
                        {"hidden_act", "silu"},
                        {"max_position_embeddings", 64},
                        {"rms_norm_eps", 1e-5},
                        {"rope_theta", 5e5},
                        {"rope_scaling", nullptr},
                        {"attention_bias", false},
                        {"tie_word_embeddings", true},
                        {"use_sliding_window", false},
                        {"torch_dtype", "bfloat16"}});
  config.rope_scaling = {.kind = RopeScaling::Kind::linear, .factor = 2};
  CHECK(json::parse(config_text(config, StoredAs::f16))["rope_scaling"] ==
        json{{"rope_type", "linear"}, {"factor", 2.0}});
  CHECK(json::parse(config_text(config, StoredAs::f16))["torch_dtype"] == "float16");
}

TEST_CASE("hf config: the architecture determines biases and the norms of queries and keys") {
  CHECK(read(with({{"model_type", "qwen2"}})).qkv_bias);
  CHECK_FALSE(read(with({{"model_type", "qwen2"}})).o_bias());
  CHECK(read(with({{"model_type", "qwen3"}})).qk_norm);
  CHECK_FALSE(read(with({{"model_type", "qwen3"}})).qkv_bias);
  const DecoderConfig biased = read(with({{"attention_bias", true}}));
  CHECK(biased.qkv_bias);
  CHECK(biased.o_bias());
}

TEST_CASE("hf config: rope scaling is read in its older and newer spellings") {
  const json llama3{{"rope_type", "llama3"},
                    {"factor", 8},
                    {"low_freq_factor", 1.5},
                    {"high_freq_factor", 7.0},
                    {"original_max_position_embeddings", 4096}};  // none is what it would be without
  const RopeScaling scaling = read(with({{"rope_scaling", llama3}})).rope_scaling;
  CHECK(scaling.kind == RopeScaling::Kind::llama3);
  CHECK(scaling.factor == 8);
  CHECK(scaling.low_frequency_factor == 1.5);
  CHECK(scaling.high_frequency_factor == 7);
  CHECK(scaling.original_positions == 4096);
  const RopeScaling old = read(with({{"rope_scaling", {{"type", "linear"}, {"factor", 2.5}}}})).rope_scaling;
  CHECK(old.kind == RopeScaling::Kind::linear);
  CHECK(old.factor == 2.5);
  const DecoderConfig newer =
      read(with({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}}}));
  CHECK(newer.rope_theta == 5e5);
  CHECK(newer.rope_scaling.kind == RopeScaling::Kind::none);
}

TEST_CASE("hf config: a sliding window that covers all positions is accepted") {
  CHECK(fault(with({{"use_sliding_window", true}, {"sliding_window", 64}})) == "");
  CHECK(fault(with({{"use_sliding_window", false}, {"sliding_window", 8}})) == "");
  CHECK(fault(with({{"use_sliding_window", true}, {"sliding_window", 63}})) ==
        "config.json: use_sliding_window is true; expected false, or a sliding_window of at least "
        "max_position_embeddings, 64");
}

TEST_CASE("hf config: an error names the key, what was found and what was expected") {
  CHECK(fault(with({{"model_type", "gpt2"}})) ==
        "config.json: model_type is \"gpt2\"; expected one of \"qwen2\", \"qwen3\", \"llama\"");
  CHECK(fault(with({{"hidden_size", "64"}})) ==
        "config.json: hidden_size is \"64\"; expected an integer from 1 to 1048576");
  CHECK(fault(with({{"num_hidden_layers", 0}})) ==
        "config.json: num_hidden_layers is 0; expected an integer from 1 to 1024");
  CHECK(fault(with({{"num_key_value_heads", 3}})) ==
        "config.json: num_key_value_heads is 3; expected a divisor of num_attention_heads, 4");
  json missing = llama();
  missing.erase("vocab_size");
  CHECK(fault(missing) == "config.json: vocab_size is missing; expected an integer from 1 to 67108864");
  CHECK(
      fault(with({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}})) ==
      "config.json: rope_scaling.rope_type is \"yarn\"; expected one of \"default\", \"linear\", \"llama3\"");
}

TEST_CASE("hf config: a member that changes the mathematics is refused by name unless it is neutral") {
  CHECK(
      fault(with({{"logits_scaling", 8}})) ==
      "config.json: logits_scaling is 8; expected 1, or no such member: the mathematics that it asks for is "
      "not implemented");
  CHECK(
      fault(with({{"is_causal", false}})).starts_with("config.json: is_causal is false; expected true, or"));
  CHECK(
      fault(with({{"auto_map", {{"AutoModel", "modeling.X"}}}})) ==
      "config.json: auto_map is an object; expected no such member: the mathematics that it asks for is not "
      "implemented");
  for (const NeutralMember& member : neutral_members) {
    const std::string name(member.name);
    CAPTURE(name);
    using Value = NeutralMember::Value;
    const json neutral = member.neutral == Value::no     ? json(false)
                         : member.neutral == Value::yes  ? json(true)
                         : member.neutral == Value::one  ? json(1.0)
                         : member.neutral == Value::zero ? json(0)
                                                         : json(nullptr);
    CHECK(fault(with({{name, neutral}})) == "");
    CHECK(fault(with({{name, nullptr}})) == "");
    for (const json& other : {json(member.neutral != Value::yes), json(0.5), json("x"), json::object()})
      if (other != neutral) CHECK(fault(with({{name, other}})).starts_with("config.json: " + name + " is "));
  }
}

TEST_CASE("hf config: a member that nobody knows is refused by name, at the top and inside") {
  CHECK(fault(with({{"new_norm", "tanh"}})) ==
        "config.json: \"new_norm\" is \"tanh\"; expected only members that are read or known to be harmless, "
        "as another one may change what the model computes; remove it if it does not");
  CHECK(fault(with({{"new_norm", nullptr}})) == "");
  CHECK(fault(with({{"pruned_heads", {{"0", {1}}}}})).starts_with("config.json: pruned_heads is an object"));
  CHECK(fault(with({{"pruned_heads", json::object()}})) == "");
  CHECK(fault(with({{"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"mscale", 0.5}}}}))
            .starts_with("config.json: rope_scaling.\"mscale\" is 0.5; expected only members"));
  // Members that transformers writes beside the mathematics.
  CHECK(fault(with({{"_name_or_path", "x"},
                    {"transformers_version", "4.57.1"},
                    {"use_cache", true},
                    {"attention_dropout", 0.1},
                    {"bos_token_id", 1},
                    {"eos_token_id", {1, 2}},
                    {"initializer_range", 0.02},
                    {"max_window_layers", 28},
                    {"sliding_window", 32},
                    {"use_sliding_window", false},
                    {"pretraining_tp", 1},
                    {"torch_dtype", "bfloat16"},
                    {"dtype", "bfloat16"}})) == "");
}

TEST_CASE("hf config: a checkpoint of another class than the causal model is refused by its name") {
  CHECK(fault(with({{"architectures", {"LlamaForCausalLM"}}})) == "");
  CHECK(fault(with({{"architectures", {"LlamaForSequenceClassification"}}})) ==
        "config.json: architectures is an array; expected [\"LlamaForCausalLM\"], found "
        "\"LlamaForSequenceClassification\"");
  CHECK(fault(with({{"model_type", "qwen3"}, {"architectures", {"Qwen3ForRewardModel"}}})) ==
        "config.json: architectures is an array; expected [\"Qwen3ForCausalLM\"], found "
        "\"Qwen3ForRewardModel\"");
  CHECK(fault(with({{"architectures", json::array()}})) ==
        "config.json: architectures is an array; expected [\"LlamaForCausalLM\"]");
}

TEST_CASE("hf config: wrong types, values out of range and features not implemented are refused") {
  const json llama3{{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 1}};
  const json refused[] = {
      {{"hidden_size", -64}},
      {{"hidden_size", 64.5}},
      {{"hidden_size", 1e30}},
      {{"hidden_size", json::array({64})}},
      {{"hidden_size", 62}},
      {{"vocab_size", true}},
      {{"head_dim", 15}},
      {{"head_dim", 258}},
      {{"hidden_size", 2048}},
      {{"num_attention_heads", 100000}},
      {{"rms_norm_eps", 0}},
      {{"rms_norm_eps", "1e-6"}},
      {{"rope_theta", -1}},
      {{"rope_scaling", "linear"}},
      {{"rope_scaling", {{"factor", 2}}}},
      {{"rope_scaling", {{"type", "linear"}}}},
      {{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}},
      {{"rope_scaling", llama3}},
      {{"rope_scaling", {{"type", "default"}}}, {"rope_parameters", {{"rope_type", "default"}}}},
      {{"partial_rotary_factor", 0.5}},
      {{"tie_word_embeddings", 1}},
      {{"hidden_act", "gelu"}},
      {{"mlp_bias", true}},
      {{"layer_types", json::array({"full_attention", "sliding_attention"})}, {"sliding_window", 8}},
      {{"quantization_config", {{"bits", 4}}}}};
  for (const json& changes : refused) {
    CAPTURE(changes.dump());
    const std::string message = fault(with(changes));
    CHECK(message.starts_with("config.json: "));
    CHECK(message.find("; expected ") != std::string::npos);
  }
  CHECK(fault(json::array()) == "config.json: the top level is an array; expected an object");
}

TEST_CASE("hf config: a configuration survives writing and reading") {
  DecoderConfig config;
  config.family = Family::qwen3;
  config.layers = 3, config.hidden = 40, config.heads = 6, config.kv_heads = 2, config.head_dim = 24;
  config.intermediate = 50, config.vocabulary = 70, config.positions_max = 300;
  config.rms_epsilon = 3e-7;
  config.rope_theta = 123456.789;
  config.rope_scaling = {RopeScaling::Kind::llama3, 8, 1.5, 4, 100};
  config.qkv_bias = config.qk_norm = config.tied_embeddings = true;
  const std::string text = config_text(config, StoredAs::f32);
  const TestFolder folder;
  folder.write("config.json", text);
  CHECK(config_text(read_decoder_config(folder.path()), StoredAs::f32) == text);
}

}  // namespace hf_config_test
}  // namespace troupe::kernels
