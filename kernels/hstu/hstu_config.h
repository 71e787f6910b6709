#pragma once
// The shape of an HSTU model (Hierarchical Sequential Transduction Unit, Zhai et al., ICML 2024),
// as in its config.json: layers of attention by SiLU instead of softmax, with a constant
// normaliser, a norm after attention and a gate. The research layer biases pairs by their positions
// and by the time between them; the production layer ("layer": "stu") has affine norms and no bias.
// A field that asks for other mathematics is refused by name.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "kernels/base/errors.h"

namespace troupe::kernels {

struct HstuConfig {
  bool production = false;
  std::uint32_t layers = 0, hidden = 0, heads = 0;
  std::uint32_t head_dim = 0;    // of queries, keys and values
  std::uint32_t vocabulary = 0;  // rows of the item embedding; row 0 is padding
  std::uint32_t positions = 0;   // a full history and one position for candidates
  double normaliser = 1;         // divides each sum over keys, whatever the request's length
  double scale = 1;              // factor of a query's product with a key
  double epsilon = 1e-6;         // of norms
  // number of the last one; bucket k begins at e^(k * bucket_divisor) seconds
  std::uint32_t time_buckets = 0;
  double bucket_divisor = 0;
  double l2_epsilon = 1e-6, temperature = 1;  // of next-item logits
  std::uint32_t head_hidden = 0, tasks = 0;   // of the task head; 0 tasks: there is none
  // Production layer: tokens at the front that see the whole history, and how far back a row sees
  // (0 = all).
  std::uint32_t context_tokens = 0, window = 0;

  std::uint32_t width() const { return heads * head_dim; }
  // Returns the number of features per token. Research layer: its time, and the time of the next
  // event (the request's for the last event and for candidates), in seconds.
  std::uint32_t features() const { return production ? 0 : 2; }
};

// Reads a configuration; `file` is for errors. Throws LoadError.
HstuConfig hstu_config_of(const std::filesystem::path& file, const nlohmann::json& document);
HstuConfig read_hstu_config(const std::filesystem::path& directory);

}  // namespace troupe::kernels
