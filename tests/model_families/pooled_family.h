#pragma once
// A second family, for tests only: what a plan's tokens mean is the mean of their embeddings, and a small
// perceptron over that mean gives the scores; it generates, too, by trying every path. It knows no order, no
// positions and no attention, and its pages hold embeddings; so whatever still takes every model for a
// decoder shows. Of a catalog it uses how many items there are: each adds one to every score.
//
//   config.json: {"model_type": "pooled_mlp", "vocab_size": 64, "hidden_size": 16, "max_position_embeddings":
//   96,
//                 "seed": 1}; weights are drawn from the seed
#include <filesystem>
#include <memory>

#include "deploy/models/families.h"

namespace troupe::families {

struct PooledShape {
  std::uint32_t vocabulary = 64, hidden = 16, positions_max = 96;
  std::uint64_t seed = 1;
};

// With the vocabulary and the prompt that tests/fuzz's tiny model has; without `ranks` the form of a
// generator.
void write_pooled_model(const std::filesystem::path& directory, const PooledShape& shape = {},
                        bool ranks = true);

std::unique_ptr<kernels::Executor> make_pooled_executor(const PooledShape& shape, std::uint32_t page_tokens);
kernels::PageLayout pooled_layout(const PooledShape& shape, std::uint32_t page_tokens);
placement::ModelShape pooled_cost(const PooledShape& shape);

deploy::Family pooled_family();
deploy::Families families_with_pooled();  // the program's, and this one

}  // namespace troupe::families
