#pragma once
// A second model family, for tests only. A plan is the mean of its tokens' embeddings, and a small
// perceptron over the mean gives the scores; it generates by trying every path. It has no order, no
// positions and no attention, and its pages hold embeddings. So code that treats every model as a decoder
// fails with it. From a catalog it uses the number of items: each adds one to every score.
//
//   config.json: {"model_type": "pooled_mlp", "vocab_size": 64, "hidden_size": 16, "max_position_embeddings":
//   96,
//                 "seed": 1}; weights are drawn from the seed
#include <filesystem>
#include <memory>

#include "deploy/models/model_families.h"

namespace troupe::families {

struct PooledShape {
  std::uint32_t vocabulary = 64, hidden = 16, positions_max = 96;
  std::uint64_t seed = 1;
};

// Uses the vocabulary and the prompt of the tiny model of tests/fuzz. Without `ranks` it writes a
// generator's prompt form.
void write_pooled_model(const std::filesystem::path& directory, const PooledShape& shape = {},
                        bool ranks = true);

std::unique_ptr<kernels::Executor> make_pooled_executor(const PooledShape& shape, std::uint32_t page_tokens);
kernels::PageLayout pooled_layout(const PooledShape& shape, std::uint32_t page_tokens);
placement::ModelShape pooled_cost(const PooledShape& shape);

deploy::ModelFamily pooled_family();
deploy::ModelFamilies model_families_with_pooled();  // the program's families, and this one

}  // namespace troupe::families
