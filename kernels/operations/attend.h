#pragma once
// Streaming-softmax attention over spans: the queries of one key-value head, for a group of
// segments that all see the same earlier segments (FlashAttention's online softmax, Dao et al.
// 2022; decoder_batch.h defines spans and groups). Every row attends to all of `context`. In
// `tail` (the group's own keys, concatenated in row order) row r attends to [tail_begin[r],
// tail_end[r]): causal inside a segment, nothing across segments. Keys are used as stored (already
// rotated), or rotated on the way by one angle per pair for all of a run (realign.h explains why).
// Arithmetic is float32 whatever keys and values are stored as, except that a task may allow bf16. An
// infinity or NaN in a key or value that a row sees makes the row's output infinite or NaN, so that an
// overflow of a 16-bit format cannot pass for an answer. A key or value that a row does not see has no effect
// on it.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/base/number_formats.h"

namespace troupe::kernels {

// `tokens` keys and values in a row, stored as `format`: token t's key begins t*stride numbers
// behind the first one's, its value t*value_stride.
struct KvRun {
  const void* keys = nullptr;
  const void* values = nullptr;
  std::uint32_t tokens = 0;
  std::uint32_t stride = 0;
  KvFormat format = KvFormat::f32;
  // [head_dim/2] each: the angles by which the keys are rotated; null = not rotated
  const float* cosines = nullptr;
  const float* sines = nullptr;
  std::uint32_t value_stride = 0;  // 0: stride

  std::uint32_t stride_of_values() const { return value_stride > 0 ? value_stride : stride; }
};

struct AttendTask {
  const float* queries = nullptr;  // row r, head h at queries + r*query_stride + h*head_dim
  float* out = nullptr;            // row r, head h at out + r*out_stride + h*head_dim; all written
  std::size_t query_stride = 0, out_stride = 0;
  std::uint32_t rows = 0;      // tokens of the group
  std::uint32_t heads = 0;     // query heads that share this key-value head
  std::uint32_t head_dim = 0;  // 1..256
  float scale = 1;             // 1/sqrt(head_dim)
  std::span<const KvRun> context;
  std::span<const KvRun> tail;
  // [rows]; begin < end whenever context is empty
  std::span<const std::uint32_t> tail_begin, tail_end;
  // Not null, [tokens of context, then of tail]: adds, per token, its attention weight summed over
  // the rows from `mass_from` on and over the heads. The scores are computed a second time for it.
  float* mass = nullptr;
  std::uint32_t mass_from = 0;
  // Not null: row r sees token t of its interval of the tail only if mask[r*mask_stride + t] is not
  // 0. The stride must be a multiple of attend_mask_tokens, and a token that is masked for some row
  // must have a finite value.
  const float* mask = nullptr;
  std::size_t mask_stride = 0;
  // Allows the version with AVX512_BF16 to round queries, weights of the softmax and rotated keys to
  // bf16 if all keys and values are bf16; sums are float32. It then takes about half the time.
  bool may_round = false;
};
inline constexpr std::size_t attend_mask_tokens = 32;

// Reused between calls so that steady state allocates nothing.
struct AttendScratch {
  std::vector<float> floats;
};

using Attend = void(const AttendTask& task, AttendScratch& scratch);

Attend attend_reference;  // attend_reference.cc: the definition, in double; never tuned
Attend attend;            // picks the best version for this CPU once

struct AttendVersion {
  std::string_view name;  // "reference", "avx512_bf16", "avx512", "avx2", "sse4", "neon", …
  Attend* run;
  bool usable;  // on this CPU
};
std::span<const AttendVersion> attend_versions();

}  // namespace troupe::kernels
