#pragma once
// The Climber model (Xu et al. 2025, arXiv 2502.09888; served by FLAME), which ranks for several
// tasks. Each sub-sequence of a user's history goes through a transformer of its own, here called a
// **tower** ("block" in the model files; in Troupe a block is the keys and values of a segment).
// Candidates are appended to every tower's sub-sequence and see all of it and themselves. An
// elementwise gate fuses the towers; experts and a head for each task compute the logits.
//
// Before its softmax a tower divides scores by a temperature that depends on tower, layer, head and
// the request's scenario. So keys and values of a history are valid for one scenario, which is
// among the features of its tokens.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/errors.h"
#include "kernels/base/plan.h"
#include "kernels/checkpoint/embedding_table.h"
#include "kernels/checkpoint/model.h"
#include "kernels/decoder/decoder.h"
#include "kernels/executor/executor.h"

namespace troupe::kernels {

// Selects the events of a tower: all, or those whose action is at least `liked_action_min`; the
// last ones for which the tower has positions.
enum class ClimberStrategy : std::uint8_t { recent, liked };
inline constexpr std::int64_t liked_action_min = 4;

struct ClimberTower {
  ClimberStrategy strategy = ClimberStrategy::recent;
  std::uint32_t positions = 0;  // maximum events of its sub-sequence
  bool operator==(const ClimberTower&) const = default;
};

struct ClimberConfig {
  std::uint32_t items = 0, actions = 0, scenarios = 0;                // item ids are 1 to items; 0 is padding
  std::uint32_t hidden = 0, heads = 0, layers = 0, intermediate = 0;  // layers: of each tower
  std::vector<ClimberTower> towers;
  std::uint32_t temperature_embedding = 8, temperature_hidden = 16;
  std::uint32_t experts = 0, expert_size = 0, head_size = 0;
  std::vector<std::string> tasks;
  double norm_epsilon = 1e-5;

  std::uint32_t head_dim() const { return hidden / heads; }
  std::uint32_t fused() const { return hidden * static_cast<std::uint32_t>(towers.size()); }
  bool operator==(const ClimberConfig&) const = default;
};

struct Affine {  // y = weight · x + bias
  Matrix weight;
  std::vector<float> bias;
};
struct NormWeights {
  std::vector<float> weight, bias;
};

struct ClimberLayerWeights {
  NormWeights attention_norm, ffn_norm;
  Affine qkv, output;  // [3 hidden, hidden]: queries, keys, values; [hidden, hidden]
  Affine fc1, fc2;     // [intermediate, hidden], [hidden, intermediate]
};
struct ClimberTowerWeights {
  Matrix positions;  // [positions + 1, hidden]
  std::vector<ClimberLayerWeights> layers;
  NormWeights final_norm;
};
struct ClimberTaskWeights {
  Affine gate, fc1, fc2;  // [experts, fused], [head_size, expert_size], [1, head_size]
};

struct ClimberWeights {
  Matrix items, actions;  // [items + 1, hidden], [actions, hidden]
  Matrix strategies, scenarios;
  Affine temperature_fc1,
      temperature_fc2;  // [temperature_hidden, 2 embeddings], [layers × heads, temperature_hidden]
  std::vector<ClimberTowerWeights> towers;
  Affine fusion_gate;           // [fused, fused]
  std::vector<Affine> experts;  // [expert_size, fused] each
  std::vector<ClimberTaskWeights> tasks;
};

struct ClimberModel {
  ClimberConfig config;
  ClimberWeights weights;
  // null: weights.items has the rows; otherwise weights.items is empty
  std::shared_ptr<EmbeddingTable> items;
  // hex SHA-256 over the configuration and all tensors; over sampled rows of a large table that is
  // apart
  std::string version;
};

// Returns a configuration of FLAME's size (Tables 2 and 4; the width follows from its operations):
// two towers of 12 layers, 128 wide, which share the history evenly, the `liked` one with as many
// positions.
ClimberConfig flame_climber(std::uint32_t history);

ClimberConfig read_climber_config(const std::filesystem::path& directory);  // throws LoadError
ClimberModel read_climber(const std::filesystem::path& directory,
                          ItemRows items = ItemRows::in_memory);  // throws LoadError

// random_climber returns a model with seeded random weights, scaled so that activations and scores
// stay near 1. write_climber writes a model as a directory, in float32.
ClimberModel random_climber(const ClimberConfig& config, std::uint64_t seed);
void write_climber(const ClimberModel& model, const std::filesystem::path& directory);

// Returns sqrt(head_dim) · exp(g) for each tower, scenario, layer and head, in this order.
std::vector<double> climber_temperatures(const ClimberConfig& config, const ClimberWeights& weights);

// Index of each feature of a plan's token.
enum class ClimberFeature : std::uint8_t { action, tower, scenario };
inline constexpr std::uint32_t climber_features = 3;
inline constexpr std::int64_t climber_candidate = -1;  // tower feature of a candidate, which is in all towers

// Returns the limits of a plan, which is made of:
//   - histories: segments of a tower's events, one token each, with their actions, at consecutive positions
//     from `start` on. They may see earlier ones of their tower.
//   - candidates: segments of one token with action 0, which see histories. In each tower a candidate's
//     position is after what it sees there, whatever its `start`.
//   - readouts: tasks of candidates, as head numbers.
PlanLimits plan_limits(const ClimberConfig& config);
// Checks a plan that the general validate accepts. Returns "" or what is wrong.
std::string validate(const Plan& plan, const ClimberConfig& config);

// Returns the layout of a tower's keys and values, which is the decoders'.
KvLayout kv_layout(const ClimberConfig& config, std::uint32_t page_tokens, KvFormat format);
PageLayout page_layout(const ClimberConfig& config, const DecoderOptions& options);

struct ClimberRequest {
  std::vector<Token> items;           // history, oldest first
  std::vector<std::int64_t> actions;  // [item]
  std::int64_t scenario = 0;
  std::vector<Token> candidates;
};
// Returns a plan with a history segment for each tower whose sub-sequence is not empty, then the
// candidates. Readout c × tasks + t is task t of candidate c.
Plan climber_plan(const ClimberConfig& config, const ClimberRequest& request);

// Working memory of passes on the CPU.
struct ClimberPassMemory {
  std::size_t token_bytes = 0;  // per computed token; a candidate is a row in every tower
  std::size_t tokens_max = 0;   // maximum tokens of one pass
};
ClimberPassMemory pass_memory(const ClimberConfig& config, const DecoderOptions& options);

// Makes the CPU executor; takes the weights. Options of beam searches are ignored.
std::unique_ptr<Executor> make_cpu_climber(ClimberModel model, const DecoderOptions& options);

}  // namespace troupe::kernels
