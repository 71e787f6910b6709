#pragma once
// Biases of pairs and windows of rows of an HSTU pass, computed once for all its layers and heads,
// on any backend. Holds positions and times of the keys that groups of rows see, and the steps of
// time buckets along them (time_steps.h).
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/decoder/decoder_batch.h"
#include "kernels/hstu/hstu_config.h"
#include "kernels/hstu/time_steps.h"

namespace troupe::kernels {

class HstuBias {
 public:
  // The keys that a group sees: its context, then its own rows.
  struct Group {
    std::vector<std::int32_t> key_positions;
    std::vector<std::int64_t> key_times;
    std::size_t context = 0;  // keys
  };
  // Arrays per row.
  struct Rows {
    std::vector<std::int32_t> positions;
    std::vector<std::uint32_t> step_begin, step_end;  // into steps
    std::vector<std::uint32_t> context_begin, tail_begin;
  };

  HstuBias(const HstuConfig& config, const TimeBuckets& buckets) : c_(config), buckets_(buckets) {}

  // Computes the biases of a batch. Returns "" or the limit that it exceeds: `steps_max` steps for
  // each row (small passes are allowed many more).
  std::string note(const DecoderBatch& batch, std::size_t steps_max);
  void free_memory();  // frees all memory

  const std::vector<Group>& groups() const { return groups_; }
  const Rows& rows() const { return rows_; }
  const Rows& read_rows() const { return read_; }  // the same for the batch's read rows
  const std::vector<BucketStep>& steps() const { return steps_; }

 private:
  void note_keys(const DecoderBatch& batch, const RowGroup& group, Group& keys) const;
  std::string note_steps(const DecoderBatch& batch, const RowGroup& group, const Group& keys,
                         std::size_t allowed);
  void note_window(const RowGroup& group, const Group& keys);
  void gather_read_rows(const DecoderBatch& batch);

  const HstuConfig& c_;
  const TimeBuckets& buckets_;
  std::vector<Group> groups_;
  std::vector<BucketStep> steps_;
  Rows rows_, read_;
};

}  // namespace troupe::kernels
