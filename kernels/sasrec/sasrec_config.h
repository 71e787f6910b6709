#pragma once
// The shape of a SASRec model (Self-Attentive Sequential Recommendation, Kang and McAuley, ICDM
// 2018) as Meta's research code trains it: layers of softmax attention over a history of items, and
// a next-item score that is the similarity of the last event's state to an item. A field that asks
// for other mathematics is refused by name (docs/reference/model-formats.md).
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace troupe::kernels {

enum class SasrecActivation : std::uint8_t { relu, gelu };
// The norm of a state before it is compared with items.
enum class SasrecOutputNorm : std::uint8_t { l2, layer_norm };

struct SasrecConfig {
  std::uint32_t layers = 0, hidden = 0, heads = 0;
  std::uint32_t intermediate = 0;  // of the feed-forward part
  SasrecActivation activation = SasrecActivation::relu;
  std::uint32_t vocabulary = 0;     // rows of the item embedding; row 0 is padding
  std::uint32_t history_max = 0;    // newest events of a history that are read
  std::uint32_t position_rows = 0;  // rows of the position embedding; those from history_max on are not read
  double epsilon = 1e-8;            // of the norms in layers
  SasrecOutputNorm output_norm = SasrecOutputNorm::l2;
  double output_epsilon = 1e-6;
  bool item_l2 = true;  // items are compared at unit length
  double l2_epsilon = 1e-6, temperature = 1;

  std::uint32_t head_dim() const { return hidden / heads; }
};

// Reads a configuration; `file` is for errors. Throws LoadError.
SasrecConfig sasrec_config_of(const std::filesystem::path& file, const nlohmann::json& document);
SasrecConfig read_sasrec_config(const std::filesystem::path& directory);

}  // namespace troupe::kernels
