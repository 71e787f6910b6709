#pragma once
// The HSTU family behind executor.h: rankers over a user's history of items, of which each is one token (its
// number is its row of the item embedding). Made here for the CPU.
//
// A plan's tokens are items at positions, each with two features in the research layer: its own time, and the
// time of the event after it, which is the request's for the last one and for candidates. Attention goes over
// what segments see and, inside them, causally; the window of the production layer counts positions, and its
// context tokens (those at positions below their number) see all of their segment. What is read of a token:
//   head h   the task's logit, of a candidate: a segment of one token behind the history, at the position
//   after it rows     next-item logits of these items: states of unit length, over the temperature state the
//   state after the last layer
// So rows 0 … h-2 of a history of h are a block that later requests may use, as they depend on times up to
// t_(h-1); row h-1 depends on the request's time and is a segment of its own. Pages hold keys and values of
// all layers (kv_layout.h). A block cannot be moved or replaced in part: positions are in its states.
#include <memory>

#include "kernels/decoder/decoder.h"
#include "kernels/executor/executor.h"
#include "kernels/hstu/hstu_model.h"

namespace troupe::kernels {

PlanLimits plan_limits(const HstuConfig& config);
KvLayout kv_layout(const HstuConfig& config, std::uint32_t page_tokens, KvFormat format);

// What a pass takes beside weights and pages, by computed tokens, as pass_memory of the decoders.
struct HstuPassMemory {
  std::size_t row_bytes = 0;    // of a computed token
  std::size_t tokens_max = 0;   // of one pass
  std::size_t tokens_kept = 0;  // whose memory stays for the next pass
  std::size_t steps_max =
      0;  // of time buckets of one pass: times that rise and fall without end are too large
};
HstuPassMemory pass_memory(const HstuConfig& config, const DecoderOptions& options);

// Takes the weights. Of the options: weights are float32, and nothing of beam searches is looked at.
std::unique_ptr<Executor> make_cpu_hstu(HstuModel model, const DecoderOptions& options);

}  // namespace troupe::kernels
