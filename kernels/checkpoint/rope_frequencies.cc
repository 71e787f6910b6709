// Computes the rotary frequencies of a decoder: by how much a position rotates each pair of a key's
// numbers. Applies the checkpoint's scaling for long contexts (linear, or Llama 3.1's).
#include <cmath>
#include <numbers>

#include "kernels/checkpoint/model.h"

namespace troupe::kernels {
namespace {

// Llama 3.1's rule. Wavelengths below original/high keep their frequency, and those above
// original/low are stretched by `factor`. Between the two, the frequency is a mean of both,
// weighted by original/wavelength.
double llama3_scaled(double frequency, const RopeScaling& scaling) {
  const double rotations = scaling.original_positions * frequency / (2 * std::numbers::pi);
  if (rotations > scaling.high_frequency_factor) return frequency;
  if (rotations < scaling.low_frequency_factor) return frequency / scaling.factor;
  const double kept = (rotations - scaling.low_frequency_factor) /
                      (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return kept * frequency + (1 - kept) * frequency / scaling.factor;
}

}  // namespace

std::vector<double> rope_frequencies(const DecoderConfig& config) {
  std::vector<double> frequencies(config.head_dim / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double plain = std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / config.head_dim);
    switch (config.rope_scaling.kind) {
      case RopeScaling::Kind::none:
        frequencies[i] = plain;
        break;
      case RopeScaling::Kind::linear:
        frequencies[i] = plain / config.rope_scaling.factor;
        break;
      case RopeScaling::Kind::llama3:
        frequencies[i] = llama3_scaled(plain, config.rope_scaling);
        break;
    }
  }
  return frequencies;
}

}  // namespace troupe::kernels
