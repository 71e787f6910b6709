#pragma once
// What a pass of HSTU biases pairs by, and how far back rows see, once for all its layers and heads, whatever
// computes it: positions and times of the keys that groups of rows see, and the steps of time buckets along
// them (time_steps.h).
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
  // Of the keys that a group sees, context and then its own rows.
  struct Group {
    std::vector<std::int32_t> key_positions;
    std::vector<std::int64_t> key_times;
    std::size_t context = 0;  // keys
  };
  // Per row.
  struct Rows {
    std::vector<std::int32_t> positions;
    std::vector<std::uint32_t> step_begin, step_end;  // into steps
    std::vector<std::uint32_t> context_begin, tail_begin;
  };

  HstuBias(const HstuConfig& config, const TimeBuckets& buckets) : c_(config), buckets_(buckets) {}

  // Empty, or what is beyond the bound: `steps_max` for each row (many more are allowed to small passes).
  std::string note(const DecoderBatch& batch, std::size_t steps_max);
  void give_back();  // all memory

  const std::vector<Group>& groups() const { return groups_; }
  const Rows& rows() const { return rows_; }
  const Rows& read_rows() const { return read_; }  // the same of the batch's read rows
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
