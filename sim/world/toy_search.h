#pragma once
// Beam search on the toy model with an index of valid paths, as a device does it. The simulated
// device (compute_port.h) answers generations with it. expected_results.h computes the same
// independently, from lists of items, and judges compare the two.
#include <span>
#include <vector>

#include "kernels/base/path_index.h"
#include "sim/world/toy_model.h"

namespace troupe::sim {

// Returns the log-probability of each token of `next` (ascending) after `path`. The path follows
// token `offset` of a segment with this value (toy_model.h). The denominator of the softmax is a
// constant of the toy if it covers the whole vocabulary. If it covers the allowed tokens, it is the
// sum of their weights.
std::vector<double> log_probabilities(const ToyFamily& family, std::uint64_t model_key,
                                      const SegmentValue& value, std::uint32_t offset,
                                      std::span<const Token> path, std::span<const Token> next,
                                      Search::Normalisation normalised);

// Returns the best paths first. `paths` is ignored, and may be null, if the search has its own
// allowed paths.
std::vector<Beam> search_paths(const ToyFamily& family, std::uint64_t model_key, const SegmentValue& value,
                               std::uint32_t offset, const Search& search, const kernels::PathIndex* paths);

// Orders paths by higher probability; equal ones by smaller tokens.
bool is_better(const Beam& a, const Beam& b);

}  // namespace troupe::sim
