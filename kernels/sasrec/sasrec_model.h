#pragma once
// The weights of a SASRec model. One table of names and shapes (sasrec_model.cc) serves reading,
// writing, generating and version hashing.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/checkpoint/embedding_table.h"
#include "kernels/checkpoint/model.h"
#include "kernels/sasrec/sasrec_config.h"

namespace troupe::kernels {

struct SasrecLayer {
  Matrix qkv;  // rows: queries, keys, values, each head by head
  std::vector<float> qkv_bias;
  Matrix output, fc1, fc2;
  std::vector<float> output_bias, fc1_bias, fc2_bias;
};

struct SasrecWeights {
  Matrix items, positions;
  std::vector<SasrecLayer> layers;
};

struct SasrecModel {
  SasrecConfig config;
  SasrecWeights weights;
  // null: weights.items has the rows; otherwise weights.items is empty
  std::shared_ptr<EmbeddingTable> items;
  std::string version;  // hex SHA-256 over the configuration and the weights
};

SasrecModel read_sasrec(const std::filesystem::path& directory,
                        ItemRows items = ItemRows::in_memory);  // throws LoadError

// Makes random weights, for tests and benchmarks. Biases and attention are large enough that leaving one
// out changes the scores.
SasrecModel random_sasrec(const SasrecConfig& config, std::uint32_t seed);
// Writes the weights of a model, which must be in memory, as model.safetensors. Throws LoadError.
void write_sasrec_weights(const SasrecModel& model, const std::filesystem::path& directory);

}  // namespace troupe::kernels
