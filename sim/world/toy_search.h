#pragma once
// Beam search on the toy model with an index of paths, as a device does it. by_hand.h computes the same
// independently, from lists of items.
#include <span>
#include <vector>

#include "kernels/base/path_index.h"
#include "sim/world/toy_model.h"

namespace troupe::sim {

// Returns the log-probability of each token of `next` (ascending) behind `path`, which follows token
// `offset` of a segment with this value. Normalised over the whole vocabulary, the toy's sum is a constant;
// over the allowed tokens, it is their sum.
std::vector<double> log_probabilities(const ToyFamily& family, std::uint64_t model_key,
                                      const SegmentValue& value, std::uint32_t offset,
                                      std::span<const Token> path, std::span<const Token> next,
                                      Search::Normalisation normalised);

// Returns the best paths first. `paths` is ignored if the search brings its own.
std::vector<Beam> search_paths(const ToyFamily& family, std::uint64_t model_key, const SegmentValue& value,
                               std::uint32_t offset, const Search& search, const kernels::PathIndex* paths);

// Orders paths by higher probability; equal ones by smaller tokens.
bool is_better(const Beam& a, const Beam& b);

}  // namespace troupe::sim
