#pragma once
// Device code for sums over a warp and over a block.
#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda::simt {

template <class Number>
TROUPE_DEVICE Number warp_sum(Number value) {
  TROUPE_UNROLL
  for (unsigned mask = warp_threads / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

// Returns the sum over all threads to all of them. May be called once per kernel, or behind a
// barrier.
template <unsigned warps>
TROUPE_DEVICE float block_sum(float value) {
  TROUPE_SHARED(float, partial, warps);
  value = warp_sum(value);
  if (lane() == 0) partial[warp()] = value;
  barrier();
  float sum = 0;
  for (unsigned i = 0; i < warps; ++i) sum += partial[i];
  return sum;
}

}  // namespace troupe::kernels::cuda::simt
