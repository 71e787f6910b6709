#pragma once
// Memory of a forward pass on the CPU beside weights and pages, as a function of computed tokens;
// counted only here. Executors size their buffers by it, and admission asks it first. A batch that
// does not fit into one pass is computed in several (executor/passes.h) or refused.
#include <cstddef>
#include <mutex>
#include <new>

#include "kernels/decoder/decoder.h"

namespace troupe::kernels {

// Floats per row while it passes through the layers.
struct RowWidths {
  std::size_t state = 0, qkv = 0, mixed = 0;
};
RowWidths row_widths(const DecoderConfig& config);

struct RowMemory {
  std::size_t row_bytes = 0;    // bytes of a computed token
  std::size_t tokens_max = 0;   // maximum tokens of one pass
  std::size_t tokens_kept = 0;  // tokens whose memory stays allocated for the next pass
};
// Divides options.memory_bytes. Each executor permanently has its share, at least for
// options.batch_tokens. A larger pass, one at a time in the process, may use all of memory_bytes,
// at least for `longest` tokens, the longest prompt that the model allows, and frees it afterwards.
RowMemory divide_memory(std::size_t row_bytes, std::size_t longest, const DecoderOptions& options);

// Searches of decoders that run together have a share, too.
struct PassMemory : RowMemory {
  // maximum bytes of searches that are computed together, beside their rows
  std::size_t search_bytes_max = 0;
};
PassMemory pass_memory(const DecoderConfig& config, const DecoderOptions& options);

// Returns the bytes of a request's search beside its rows: the tokens of its paths, the pages that
// the request lacks, which are kept between passes, and the logits that a level needs.
std::size_t search_bytes(const DecoderConfig& config, const DecoderOptions& options, const Request& request);

// Returns the bytes of the plan's repair beside its rows: data per token, attention summed per
// part, and sums for means.
std::size_t repair_bytes(const DecoderConfig& config, const DecoderOptions& options, const Plan& plan);

// Runs a pass that needs more memory than an executor keeps, one at a time in the process, and frees its
// memory afterwards, also after a pass that threw, or for which memory ran out.
template <class Compute, class FreeMemory>
auto run_large_pass(std::mutex& large, Compute&& compute, FreeMemory&& free_memory) {
  const std::lock_guard one_at_a_time(large);
  struct Memory {
    FreeMemory& free_memory;
    ~Memory() {
      try {
        free_memory();
        // only small new memory can fail; the large memory is free by then
      } catch (const std::bad_alloc&) {
      }
    }
  } const memory{free_memory};
  return compute();
}

}  // namespace troupe::kernels
