#pragma once
// What a forward pass on the CPU takes beside weights and pages, by computed tokens: the one place where that
// is counted. The decoder makes its buffers by it, whoever admits requests asks it first, and what does not
// fit into one pass is computed in several (executor/passes.h) or refused.
#include <cstddef>

#include "kernels/decoder/decoder.h"

namespace troupe::kernels {

// Floats of a row, while it passes through the layers.
struct RowWidths {
  std::size_t state = 0, qkv = 0, mixed = 0;
};
RowWidths row_widths(const DecoderConfig& config);

struct PassMemory {
  std::size_t row_bytes = 0;         // of a computed token
  std::size_t tokens_max = 0;        // of one pass
  std::size_t tokens_kept = 0;       // whose memory stays for the next pass
  std::size_t search_bytes_max = 0;  // of searches that are computed together, beside their rows
};
// Each executor has its share of options.memory_bytes, at least for options.batch_tokens; that stays. A pass
// beyond it, one at a time, may have all of memory_bytes, at least for the longest prompt that the model
// allows, and gives it back. Searches that run together have a share, too.
PassMemory pass_memory(const DecoderConfig& config, const DecoderOptions& options);

// What the search of a request takes beside its rows: the tokens of its paths, what its prompt leaves between
// passes where the request has no pages for it, and the logits that a level asks for.
std::size_t search_bytes(const DecoderConfig& config, const DecoderOptions& options, const Request& request);

// What the plan's repair takes beside its rows: notes of tokens, the attention that parts of it add up, sums
// for means.
std::size_t repair_bytes(const DecoderConfig& config, const DecoderOptions& options, const Plan& plan);

}  // namespace troupe::kernels
