#pragma once
// Beam search on the toy model: as a device does it, with an index of paths. by_hand.h has it once more,
// written down from lists of items alone.
#include <span>
#include <vector>

#include "kernels/base/path_index.h"
#include "sim/world/toy_model.h"

namespace troupe::sim {

// Of each of `next`, which are ascending, behind a path that follows token `offset` of a segment with this
// value. Over the whole vocabulary the toy's sum is a constant; among those that may follow it is theirs.
std::vector<double> log_probabilities(const ToyFamily& family, std::uint64_t model_key,
                                      const SegmentValue& value, std::uint32_t offset,
                                      std::span<const Token> path, std::span<const Token> next,
                                      Search::Normalised normalised);

// The best first. `paths` is not looked at where the search brings its own.
std::vector<Beam> search_paths(const ToyFamily& family, std::uint64_t model_key, const SegmentValue& value,
                               std::uint32_t offset, const Search& search, const kernels::PathIndex* paths);

// What orders paths: the more probable one, and of equal ones the one with the smaller tokens.
bool is_better(const Beam& a, const Beam& b);

}  // namespace troupe::sim
