// Bounds of rounding, by the formats of weights, keys and values.
#include "deploy/models/rounding.h"

#include "kernels/base/number_formats.h"

namespace troupe::deploy {

RoundingBounds rounding_bounds(const Config& config) {
  if (word_of(config.model.weights) == format_name(kernels::WeightFormat::int8)) return {5e-2, 2e-1};
  if (word_of(config.model.weights) == format_name(kernels::WeightFormat::bf16)) return {1e-2, 6e-2};
  if (word_of(config.pool.kv_format) == format_name(kernels::KvFormat::bf16)) return {1e-2, 6e-2};
  if (word_of(config.pool.kv_format) == format_name(kernels::KvFormat::f16)) return {1e-3, 1e-2};
  return {1e-4, 1e-4};
}

}  // namespace troupe::deploy
