#pragma once
// Joins the attention of groups that read the same keys, for operations that can limit what a row sees of a
// context. The few newest events of a history and the candidates behind them both see all events before:
// apart, each of them reads, and packs, those keys for itself.
#include <cstdint>
#include <vector>

#include "kernels/cpu/engine/decoder_attention.h"
#include "kernels/decoder/decoder_batch.h"

namespace troupe::kernels {

// The keys that rows see when their group may be the first of a pair. Arrays per row of the batch; empty if
// no groups were joined. A row of a first group sees the keys of its own group as part of the context.
struct JoinedRows {
  std::vector<std::uint32_t> context_end, tail_end;
};

// Makes one part of the parts of two groups: all of a first group of few rows, and the next one, whose
// context is the first one's context and then its rows. The part has the second one's group. Parts keep their
// order.
void join_groups(const DecoderBatch& batch, AttentionParts& parts, JoinedRows& rows);

}  // namespace troupe::kernels
