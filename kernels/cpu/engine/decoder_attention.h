#pragma once
// Partitions the attention of a pass for threads: a part is one key-value head of one group of
// rows, or of a block of those rows if there are fewer heads than threads.
#include <cstdint>
#include <vector>

#include "kernels/decoder/decoder_batch.h"

namespace troupe::kernels {

struct AttentionPart {
  std::uint32_t group = 0, head = 0;         // index into the batch's groups; key-value head
  std::uint32_t row_begin = 0, row_end = 0;  // rows of the batch, or of those that attend
  double pairs = 0;                          // visible (row, key) pairs
};

struct AttentionParts {
  std::vector<AttentionPart> parts;  // longest first
  double pairs = 0;                  // visible (row, key) pairs, summed over the rows: the work of one head
};

// Sets `out`. `attending`: the rows that attend; null: all. `heads` and `kv_heads` are the model's.
void cut_attention(const DecoderBatch& batch, const RowSet* attending, std::uint32_t heads,
                   std::uint32_t kv_heads, std::uint32_t workers, AttentionParts& out);

}  // namespace troupe::kernels
