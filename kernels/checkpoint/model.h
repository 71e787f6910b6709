#pragma once
// The decoder architectures Qwen2, Qwen3 and Llama, as checkpoints in Hugging Face form
// (config.json + safetensors). `read_decoder` loads a directory into plain float32 tensors and
// checks everything in it. Backends pack the tensors into their own form and drop them.
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/base/errors.h"
#include "kernels/base/plan.h"

namespace troupe::kernels {

enum class Family : std::uint8_t { qwen2, qwen3, llama };

struct RopeScaling {
  enum class Kind : std::uint8_t { none, linear, llama3 } kind = Kind::none;
  double factor = 1;
  double low_frequency_factor = 1;   // llama3 only
  double high_frequency_factor = 4;  // llama3 only
  double original_positions = 8192;  // llama3 only
};

struct DecoderConfig {
  Family family = Family::qwen2;
  std::uint32_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0,
                vocabulary = 0;
  std::uint32_t positions_max = 0;
  double rms_epsilon = 1e-6;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool qkv_bias = false;  // Qwen2: always; Qwen3, Llama: "attention_bias"
  bool qk_norm = false;   // Qwen3: RMSNorm over each head's query and key
  bool tied_embeddings = false;

  // True if the output projection has a bias: "attention_bias" adds one in Llama and Qwen3; Qwen2
  // has none.
  bool o_bias() const { return qkv_bias && family != Family::qwen2; }
};

// Row-major float32 matrix: rows = output features, columns = input features, as Hugging Face stores them.
struct Matrix {
  std::uint32_t rows = 0, columns = 0;
  std::vector<float> values;
};

struct LayerWeights {
  std::vector<float> input_norm, post_attention_norm;  // [hidden]
  Matrix q, k, v, o;                          // [heads*head_dim, hidden] … o: [hidden, heads*head_dim]
  std::vector<float> q_bias, k_bias, v_bias;  // empty without qkv_bias
  std::vector<float> o_bias;                  // [hidden]; empty unless DecoderConfig::o_bias()
  std::vector<float> q_norm, k_norm;          // [head_dim]; empty without qk_norm
  Matrix gate, up, down;                      // [intermediate, hidden] ×2, [hidden, intermediate]
};

struct DecoderWeights {
  Matrix embedding;  // [vocabulary, hidden]
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;  // [hidden]
  Matrix output;                  // [vocabulary, hidden]; empty if tied to `embedding`
};

struct DecoderModel {
  DecoderConfig config;
  DecoderWeights weights;
  std::string version;  // hex SHA-256 over the configuration and all tensors' names, shapes and float32
                        // values: 64 characters, the same however the checkpoint is cut into files
};

DecoderConfig read_decoder_config(const std::filesystem::path& directory);  // throws LoadError
DecoderModel read_decoder(const std::filesystem::path& directory);          // throws LoadError

// Returns the inverse RoPE frequencies, one per pair: head_dim / 2 values, with the scaling that
// the configuration names. Pairs are (i, i + head_dim/2), as in Hugging Face.
std::vector<double> rope_frequencies(const DecoderConfig& config);

// Returns a model of this shape with seeded random weights (normal, scaled so that activations stay
// near 1), for tests and benchmarks. write_decoder writes its Hugging Face directory form.
DecoderModel random_decoder(const DecoderConfig& config, std::uint64_t seed);
enum class StoredAs : std::uint8_t { f32, f16, bf16 };
void write_decoder(const DecoderModel& model, const std::filesystem::path& directory, StoredAs stored_as,
                   std::uint32_t shards = 1);

}  // namespace troupe::kernels
