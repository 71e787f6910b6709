#pragma once
// Attention of HSTU (Zhai et al. 2024, §3.2): the queries of one head, for a group of segments
// which all see the same earlier ones. A row is one token of them; `context` is what all rows may
// see, `tail` the group's own keys. No softmax: row r of `out` is factor * sum over the keys j that
// it sees of
//   silu(scale * query_r · key_j + bias(r, j)) * value_j,   silu(z) = z / (1 + e^-z).
// Keys are those of `context`, then those of `tail`, numbered from 0. Row r sees of the context
// [context_begin[r], context_end[r]) and of the tail [tail_begin[r], tail_end[r]). The bias of a pair is the
// sum of two weights: one for the distance of the two positions, one for the bucket of the time
// between them. A row lists its buckets as steps: all keys from one step's key up to the next
// step's key are in that step's bucket. An infinity or NaN in a key or value that a row sees makes
// the row's output infinite or NaN; what it does not see has no effect on it. Arithmetic is float32
// whatever keys and values are stored as, except that a task may allow bf16 (attend.h).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/operations/attend.h"

namespace troupe::kernels {

// From key `key` up to the next step's key, pairs have the weight of this bucket.
struct BucketStep {
  std::uint32_t key = 0, bucket = 0;
};

struct PairBias {
  // [key's minus row's position], which may be below 0: points into the middle of an array; null: no
  // bias.
  const float* by_distance = nullptr;
  std::span<const float> by_bucket;
  std::span<const std::int32_t> row_positions;  // [rows]
  std::span<const std::int32_t> key_positions;  // [keys]
  std::span<const BucketStep> steps;  // row r's: [step_begin[r], step_end[r]), the first at key 0, ascending
  std::span<const std::uint32_t> step_begin, step_end;  // [rows]
};

struct SiluAttendTask {
  const float* queries = nullptr;  // row r at queries + r*query_stride
  float* out = nullptr;            // row r at out + r*out_stride; every value is written
  std::size_t query_stride = 0, out_stride = 0;
  std::uint32_t rows = 0;
  std::uint32_t head_dim = 0;                    // of queries and keys, 1..256
  std::uint32_t value_dim = 0;                   // of values and outputs, 0..256; 0: head_dim
  float scale = 1, factor = 1;                   // of scores; of sums, instead of a softmax's normaliser
  std::span<const KvRun> context, tail;          // without angles: keys are used as stored
  std::span<const std::uint32_t> context_begin;  // [rows]; empty: 0
  std::span<const std::uint32_t> context_end;    // [rows]; empty: the context's length
  std::span<const std::uint32_t> tail_begin, tail_end;  // [rows]
  PairBias bias;
  bool may_round = false;  // as in AttendTask

  std::uint32_t numbers_of_value() const { return value_dim > 0 ? value_dim : head_dim; }
};

using SiluAttend = void(const SiluAttendTask& task, AttendScratch& scratch);

SiluAttend silu_attend_reference;  // the definition, in double, for tests; never tuned
SiluAttend silu_attend;            // picks the best version for this CPU once

struct SiluAttendVersion {
  std::string_view name;  // "avx512_bf16", "avx512", "avx2", …, "reference"
  SiluAttend* run;
  bool usable;  // on this CPU
};
std::span<const SiluAttendVersion> silu_attend_versions();

}  // namespace troupe::kernels
