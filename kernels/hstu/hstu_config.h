#pragma once
// The shape of an HSTU model (Hierarchical Sequential Transduction Unit, Zhai et al., ICML 2024),
// as in its config.json: layers of attention by SiLU instead of softmax, with a constant
// normaliser, a norm after attention and a gate. The research layer biases pairs by their positions
// and by the time between them; the production layer ("layer": "stu") has affine norms and no bias;
// NVIDIA's layer ("layer": "nvidia") reads an event's item and action as two tokens. A field that
// asks for other mathematics is refused by name.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "kernels/base/errors.h"

namespace troupe::kernels {

enum class HstuLayerKind : std::uint8_t { research, stu, nvidia };
// How the state of a history's last event is normed before its products with items.
enum class HstuOutputNorm : std::uint8_t { l2, layer_norm };
enum class HstuHeadActivation : std::uint8_t { silu, relu, gelu };

struct HstuConfig {
  HstuLayerKind kind = HstuLayerKind::research;
  std::uint32_t layers = 0, hidden = 0, heads = 0;
  std::uint32_t head_dim = 0;    // of queries and keys
  std::uint32_t value_dim = 0;   // of values and gates; 0: head_dim
  std::uint32_t vocabulary = 0;  // rows of the item embedding; row 0 is padding
  // Rows of the position embedding. Research: a full history, and positions for what follows it; the extent
  // of the bias too. NVIDIA: later positions read the last row; 0 = no position embedding.
  std::uint32_t positions = 0;
  std::uint32_t history_max = 0;  // events of a full history; 0: positions - 1
  double normaliser = 1;          // divides each sum over keys, whatever the request's length
  double scale = 1;               // factor of a query's product with a key; with a softmax of its bias too
  double epsilon = 1e-6;          // of norms
  // Weights of pairs by a softmax over all positions, as published (whole_softmax.h), instead of a SiLU.
  bool softmax = false;
  bool projections_silu = true;  // research: SiLU on gates, values, queries and keys
  bool concat = false;           // research: the output projection reads gates, heads and their product
  bool pair_bias = true;         // research: weights by distance and time
  // number of the last one; bucket k begins at e^(k * bucket_divisor) seconds
  std::uint32_t time_buckets = 0;
  double bucket_divisor = 0;
  // Research: an action's row of so many numbers behind the item's row; NVIDIA: a token for each action.
  std::uint32_t actions = 0;     // rows of the action embedding; 0 = actions are not read
  std::uint32_t action_dim = 0;  // research
  // Similarity of a state to an item, and next-item logits: similarities divided by the temperature.
  HstuOutputNorm output_norm = HstuOutputNorm::l2;
  double output_epsilon = 0;  // of the state's norm; 0: l2_epsilon
  bool item_l2 = true;        // items have unit length
  double l2_epsilon = 1e-6, temperature = 1;
  // The task head; 0 tasks: there is none. A norm, then a hidden layer of `head_hidden` with SiLU; NVIDIA:
  // unit length, then hidden layers of `head_layers`.
  std::uint32_t head_hidden = 0, tasks = 0;
  std::vector<std::uint32_t> head_layers;
  HstuHeadActivation head_activation = HstuHeadActivation::silu;
  bool head_bias = true;
  double head_epsilon = 1e-6;  // NVIDIA
  // NVIDIA: which weights the layer has, and whether its input is added to its output.
  bool input_affine = true, output_affine = true, uvqk_bias = true, residual = true;
  bool scales_input = true;  // embeddings are multiplied by sqrt(hidden)
  // NVIDIA: rows of the table of each contextual feature. Each is a token at the front.
  std::vector<std::uint32_t> context_rows;
  // Tokens at the front that see the whole history, and how far back a row sees (0 = all).
  std::uint32_t context_tokens = 0, window = 0;

  bool production() const { return kind == HstuLayerKind::stu; }
  bool nvidia() const { return kind == HstuLayerKind::nvidia; }
  std::uint32_t numbers_of_value() const { return value_dim > 0 ? value_dim : head_dim; }
  std::uint32_t width() const { return heads * numbers_of_value(); }  // of gates and of values
  std::uint32_t query_width() const { return heads * head_dim; }      // of queries and of keys
  std::uint32_t projected() const { return 2 * (width() + query_width()); }
  // Numbers of a row before the output projection.
  std::uint32_t mixed() const { return (production() || concat ? 3 : 1) * width(); }
  bool biased() const { return kind == HstuLayerKind::research && pair_bias; }
  bool norms_input() const { return production() || (nvidia() && input_affine); }
  bool norms_output() const { return production() || (nvidia() && output_affine); }
  bool adds_projected() const { return production() || (nvidia() && uvqk_bias); }
  bool adds_output() const { return kind == HstuLayerKind::research; }
  // Values of the projections that a SiLU is applied to, from the first gate on.
  std::uint32_t activated() const {
    return production() ? width() : nvidia() || projections_silu ? projected() : 0;
  }
  std::uint32_t item_columns() const { return nvidia() ? hidden : hidden - action_dim; }
  double state_epsilon() const { return output_epsilon > 0 ? output_epsilon : l2_epsilon; }
  // A history is one segment: its tokens depend on later events, so that no part of it can be reused.
  bool whole_history() const { return softmax || context_tokens > 0; }

  // Returns the number of features per token. With a pair bias: its time, and the time of the next event
  // (the request's for the last event and for candidates), in seconds. Then its action, or -1.
  std::uint32_t features() const { return (biased() ? 2 : 0) + (actions > 0 ? 1 : 0); }
  std::uint32_t history() const { return history_max > 0 ? history_max : positions - 1; }
  std::uint32_t contexts() const { return static_cast<std::uint32_t>(context_rows.size()); }
  // NVIDIA with actions: an event is two tokens inside the executor, its item and its action.
  std::uint32_t event_tokens() const { return nvidia() && actions > 0 ? 2 : 1; }
  std::uint32_t context_vocabulary() const;  // rows of all contextual tables
};

// Reads a configuration; `file` is for errors. Throws LoadError.
HstuConfig hstu_config_of(const std::filesystem::path& file, const nlohmann::json& document);
HstuConfig read_hstu_config(const std::filesystem::path& directory);

}  // namespace troupe::kernels
