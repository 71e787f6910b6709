#pragma once
// The table of a decoder's tensors: Hugging Face name, shape, and where the values are kept.
// Reading, writing, random filling and version hashing all use this table, so they cannot disagree
// about what a model consists of.
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/checkpoint/model.h"

namespace troupe::kernels {

template <class Weights>
struct TensorSlot {
  using Values = std::conditional_t<std::is_const_v<Weights>, const std::vector<float>, std::vector<float>>;
  std::string name;
  std::vector<std::uint64_t> shape;  // [length], or [rows, columns]
  Values* values;                    // inside the weights

  std::uint64_t size() const { return shape.size() == 2 ? shape[0] * shape[1] : shape[0]; }
};

// Returns weights of this shape without values: only layers and matrices have their sizes.
DecoderWeights empty_weights(const DecoderConfig& config);

// Returns all tensors that a checkpoint of this configuration has, in the order of their names.
// `weights` has the shape that empty_weights gives it.
std::vector<TensorSlot<DecoderWeights>> decoder_tensors(const DecoderConfig& config, DecoderWeights& weights);
std::vector<TensorSlot<const DecoderWeights>> decoder_tensors(const DecoderConfig& config,
                                                              const DecoderWeights& weights);

// Returns the DecoderModel::version of these weights.
std::string decoder_version(const DecoderConfig& config, const DecoderWeights& weights);

}  // namespace troupe::kernels
