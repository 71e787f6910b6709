#pragma once
// The sum of the exponentials of a run of logits, the normaliser of a softmax. It is kept as the
// largest logit and the sum relative to it, so that the sums of parts can be merged whatever their
// size.
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

namespace troupe::kernels {

// largest + log(sum) is the logarithm. NaN if one of the logits was not finite.
struct ExponentialSum {
  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0;  // of exp(logit - largest)

  void add(const ExponentialSum& other) {
    if (other.sum == 0) return;
    if (other.largest > largest) {
      sum *= std::exp(largest - other.largest);
      largest = other.largest;
      sum += other.sum;
    } else {
      sum += other.sum * std::exp(other.largest - largest);
    }
  }
  double log() const { return double{largest} + std::log(double{sum}); }
};

// Returns the sum of `count` logits; an ExponentialSum() for none.
using SumExponentials = ExponentialSum(const float* logits, std::size_t count);

SumExponentials sum_exponentials_reference;  // exponential_sum_reference.cc: the definition, in double
SumExponentials sum_exponentials;            // the best version for this CPU

struct SumExponentialsVersion {
  std::string_view name;  // "avx512", "avx2", …, "reference"
  SumExponentials* run;
  bool usable;  // on this CPU
};
std::span<const SumExponentialsVersion> sum_exponentials_versions();

}  // namespace troupe::kernels
