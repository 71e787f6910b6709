// Parses the texts of a model directory: config.json, which must round-trip, and vocab.json.
#include <nlohmann/json.hpp>

#include "kernels/checkpoint/hf_config.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/vocabulary.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

using namespace kernels;

void check_config(const nlohmann::json& document) {
  const DecoderConfig config = decoder_config_of("config.json", document);
  TROUPE_CHECK(config.heads > 0 && config.kv_heads > 0 && config.heads % config.kv_heads == 0,
               "no such decoder");
  const std::string text = config_text(config, StoredAs::f32);
  TROUPE_CHECK(
      config_text(decoder_config_of("config.json", parse_json("config.json", text)), StoredAs::f32) == text,
      "a configuration changes on its way");
}

void check_vocabulary(const nlohmann::json& document) {
  const Vocabulary names = vocabulary_of("vocab.json", document, 64);
  for (Token token = 0; token < 64; ++token)
    TROUPE_CHECK(names.name(token).empty() || names.find(names.name(token)) == token,
                 "a name of another token");
}

void run(Input input) {
  const bool vocabulary = take_choice(input) & 1;
  const char* const file = vocabulary ? "vocab.json" : "config.json";
  try {
    const nlohmann::json document = parse_json(file, text_of(input));
    vocabulary ? check_vocabulary(document) : check_config(document);
  } catch (const LoadError& error) {
    const std::string_view words = error.what();
    TROUPE_CHECK(words.starts_with(file) && words.find("; expected ") != words.npos, "no place");
    check_words(words, 1'024);
  }
}

std::vector<std::string> seeds() {
  const std::string shape =
      R"("vocab_size":64,"hidden_size":16,"intermediate_size":32,"num_hidden_layers":2,)"
      R"("num_attention_heads":4,)"
      R"("num_key_value_heads":2,"max_position_embeddings":96,"torch_dtype":"float32")";
  return {R"(0{"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2",)" + shape + "}",
          R"(0{"architectures":["LlamaForCausalLM"],"model_type":"llama","head_dim":8,)"
          R"("rope_theta":5e5,"rope_scaling":)"
          R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
          R"("original_max_position_embeddings":64},)" +
              shape + "}",
          R"(0{"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","sliding_window":null,)"
          R"("rms_norm_eps":1e-5,)" +
              shape + "}",
          R"(1{"<pad>":0,"<a_1>":3,"s\u00fc\u00df":1})"};
}

}  // namespace

const Target model_target{"model", run, seeds};

}  // namespace troupe::fuzz
