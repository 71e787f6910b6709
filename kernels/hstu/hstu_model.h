#pragma once
// The weights of an HSTU model, from model.safetensors or generated. If the directory has
// generator.json instead, each weight is a small function of its name and index, so that a model of
// serving size needs no file. One table of names and shapes (hstu_model.cc) serves reading,
// generating and version hashing.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/checkpoint/embedding_table.h"
#include "kernels/checkpoint/model.h"
#include "kernels/hstu/hstu_config.h"

namespace troupe::kernels {

struct HstuLayer {
  Matrix uvqk;                         // rows: gates, values, queries, keys, each head by head
  std::vector<float> uvqk_bias;        // stu; NVIDIA
  Matrix output;                       // [hidden, mixed]
  std::vector<float> output_bias;      // research
  std::vector<float> position_weight;  // research: [2 * positions - 1], by key's minus row's position
  std::vector<float> time_weight;      // research: [time_buckets + 1]
  std::vector<float> input_norm, input_norm_bias, output_norm, output_norm_bias;  // stu; NVIDIA
};

struct HstuWeights {
  Matrix items, positions;
  Matrix actions;                // [actions, hidden]; research: [actions, action_dim]
  std::vector<Matrix> contexts;  // NVIDIA: a table of each contextual feature
  std::vector<HstuLayer> layers;
  Matrix fc1, fc2;  // of the task head; empty without tasks
  std::vector<float> fc1_bias, fc2_bias;
  std::vector<Matrix> head;  // NVIDIA: of the task head, instead of fc1 and fc2
  std::vector<std::vector<float>> head_bias;
};

struct HstuModel {
  HstuConfig config;
  HstuWeights weights;
  // null: weights.items has the rows; otherwise weights.items is empty
  std::shared_ptr<EmbeddingTable> items;
  std::string version;  // hex SHA-256 over the configuration and the weights, or over their generator
};

HstuModel read_hstu(const std::filesystem::path& directory,
                    ItemRows items = ItemRows::in_memory);  // throws LoadError

// Generates a model: a weight depends on its tensor's name and its index only. Every scale is a
// function of the name and, for the output projection, of the layer's kind.
HstuModel generated_hstu(const HstuConfig& config, ItemRows items = ItemRows::in_memory);

}  // namespace troupe::kernels
