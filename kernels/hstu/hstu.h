#pragma once
// The HSTU model behind executor.h: ranks over a user's history of items. Each item is one token, whose
// number is its row of the item embedding. This folder has its CPU executor.
//
// A plan's tokens are items at positions. In the research layer each token has two features: its own time,
// and the time of the next event (the request's time for the last event and for candidates). A model that
// reads actions has the event's action as another feature; a candidate's is -1. A token attends to what its
// segment sees and, inside the segment, causally. The production layer's window counts positions; context
// tokens (those at positions below their number) see all of their segment. With a softmax a plan is one
// segment (whole_softmax.h).
//
// Readouts of a token:
//   - head h: the task's logit of a candidate, which is a segment of one token behind the history, at the
//     position after it;
//   - rows: next-item logits of these items: their similarity to the state, divided by the temperature;
//   - state: the state after the last layer.
//
// So rows 0 … h-2 of a history of h tokens are a block that later requests may use, as they depend on times
// up to t_(h-1). Row h-1 depends on the request's time and is a segment of its own. Pages hold keys and
// values of all layers (kv_layout.h). A block cannot be moved or replaced in part: positions are in its
// states.
#include <memory>

#include "kernels/cpu/engine/pass_memory.h"
#include "kernels/decoder/decoder.h"
#include "kernels/executor/executor.h"
#include "kernels/hstu/hstu_model.h"

namespace troupe::kernels {

PlanLimits plan_limits(const HstuConfig& config);
// The limits of the CPU executor. A search finds the best items of a table that is in memory
// (cpu/engine/item_search.h); the production layer has no next-item logits.
PlanLimits plan_limits(const HstuConfig& config, ItemRows items);
// The layout of tokens; a page of `page_tokens` events has more of them where an event is two tokens.
KvLayout kv_layout(const HstuConfig& config, std::uint32_t page_tokens, KvFormat format);
PageLayout page_layout(const HstuConfig& config, const DecoderOptions& options);
// Returns what the model does not accept of a plan within its limits; empty: nothing.
std::string plan_fault(const HstuConfig& config, const Plan& plan);

// Memory of a pass beside weights and pages, as a function of computed tokens.
struct HstuPassMemory : RowMemory {
  std::size_t steps_max =
      0;  // maximum time-bucket steps of one pass: a request whose times rise and fall too often is too large
};
HstuPassMemory pass_memory(const HstuConfig& config, const DecoderOptions& options);

// Makes the CPU executor; takes the weights. Options: weights must not be int8; those of beam
// searches are ignored.
std::unique_ptr<Executor> make_cpu_hstu(HstuModel model, const DecoderOptions& options);

}  // namespace troupe::kernels
