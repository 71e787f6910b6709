#pragma once
// What the host asks of the rows of a beam search's level (kernels/search), out of logits that stay on the
// device: of every row the sum of their exponentials, and few of the logits, of given tokens or the largest.
// Memory-bound: a block reads its row twice for the sum, and ten times more from the cache where it looks
// for the largest, of which it finds the least four bits at a time.
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/operations/exponential_sum.h"

namespace troupe::kernels::cuda {

enum class Asked : std::uint32_t {
  listed,  // logits of tokens[list, list + count)
  largest  // the `count` largest, of equal ones those of the lowest tokens; in the order of their tokens
};

struct LevelRow {
  std::uint32_t list = 0;
  std::uint32_t count = 0;  // at most the vocabulary
  std::uint32_t out = 0;    // of the first one
  Asked asked = Asked::listed;
};

// Device pointers.
struct LevelRows {
  const float* logits = nullptr;  // row r's at r * stride
  std::uint32_t vocabulary = 0, stride = 0, count = 0;
  const LevelRow* rows = nullptr;
  const std::uint32_t* tokens = nullptr;  // of lists
  ExponentialSum* sums = nullptr;         // [row]; of all logits
  float* logits_out = nullptr;
  std::uint32_t* tokens_out = nullptr;  // of the largest
};
void read_level(const LevelRows& task, Stream& stream);

}  // namespace troupe::kernels::cuda
