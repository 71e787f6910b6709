#pragma once
// Finds what the attention of an HSTU pass needs besides queries, keys and values: for each row,
// which keys it sees and how its time buckets change along them (time_steps.h). It depends on
// neither layer nor head, so it is computed once per pass, for any backend.
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
  // Arrays per row. A row sees its context from `context_begin` on, and the group's own rows from
  // `tail_begin` up to the end that the batch gives.
  struct Rows {
    std::vector<std::int32_t> positions;
    std::vector<std::uint32_t> step_begin, step_end;  // into steps
    std::vector<std::uint32_t> context_begin, tail_begin;
  };

  HstuBias(const HstuConfig& config, const TimeBuckets& buckets) : c_(config), buckets_(buckets) {}

  // Computes and stores all this for a batch. Returns "" or the limit that it exceeds: on average
  // `steps_max` steps per row, or `steps_always` in all if that is more (pair_bias.cc).
  std::string note(const DecoderBatch& batch, std::size_t steps_max);
  void free_memory();  // frees all memory

  const std::vector<Group>& groups() const { return groups_; }
  const Rows& rows() const { return rows_; }
  // Rows with a readout only: the last layer needs no others.
  const Rows& read_rows() const { return read_; }
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
