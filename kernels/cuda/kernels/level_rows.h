#pragma once
// Extracts what the host needs from the rows of a beam-search level (kernels/search), whose logits
// stay on the device: each row's sum of exponentials, and a few logits, of given tokens or the
// largest. It is memory-bound. A block reads its row twice for the sum, and ten more times from the
// cache to find the largest logits, whose threshold it determines four bits at a time.
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/operations/exponential_sum.h"

namespace troupe::kernels::cuda {

enum class LogitSelection : std::uint32_t {
  listed,  // logits of tokens[list, list + count)
  largest  // the `count` largest; among equal ones those of the lowest tokens; ordered by token
};

struct LevelRow {
  std::uint32_t list = 0;
  std::uint32_t count = 0;  // at most the vocabulary
  std::uint32_t out = 0;    // index of the first output
  LogitSelection asked = LogitSelection::listed;
};

// Arguments of read_level; device pointers.
struct LevelRows {
  const float* logits = nullptr;  // row r starts at r * stride
  std::uint32_t vocabulary = 0, stride = 0, count = 0;
  const LevelRow* rows = nullptr;
  const std::uint32_t* tokens = nullptr;  // tokens of the lists
  ExponentialSum* sums = nullptr;         // [row], over all logits
  float* logits_out = nullptr;
  std::uint32_t* tokens_out = nullptr;  // tokens of the largest
};
void read_level(const LevelRows& task, Stream& stream);

}  // namespace troupe::kernels::cuda
