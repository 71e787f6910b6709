#pragma once
// The SASRec model behind executor.h: scores the next item after a user's history. Each item is one
// token, whose number is its row of the item embedding; a token has no features. A token attends to
// what its segment sees and, inside the segment, causally.
//
//   x_i = sqrt(d) * E[item_i] + P[i]
//   each layer: Q = norm(x); q from Q, but k and v from x; m = softmax attention, then its projection;
//               y = norm(Q + m), so the residual is Q; x = y + fc2(activation(fc1(y)))
//   logit of item c: norm of the last event's x · E[c] / (length of E[c] * temperature)
//
// Readouts of a token: rows (next-item logits) and the state after the last layer. A search finds the
// best items of the table (cpu/engine/item_search.h), if the table is in memory.
//
// All rows of a history are a block that later requests may use. Pages hold keys and values of all
// layers (kv_layout.h). A block cannot be moved or replaced in part: positions are in its states.
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/engine/pass_memory.h"
#include "kernels/decoder/decoder.h"
#include "kernels/executor/executor.h"
#include "kernels/sasrec/sasrec_model.h"

namespace troupe::kernels {

// `items`: where the item embedding is kept; only a table in memory is searched. As in all models whose
// tokens are items, there is one position behind a full history; plan_fault refuses events there.
PlanLimits plan_limits(const SasrecConfig& config, ItemRows items);
std::string plan_fault(const SasrecConfig& config, const Plan& plan);  // as Executor::fault
KvLayout kv_layout(const SasrecConfig& config, std::uint32_t page_tokens, KvFormat format);

// Memory of a pass beside weights and pages, as a function of computed tokens.
RowMemory pass_memory(const SasrecConfig& config, const DecoderOptions& options);

// Makes the CPU executor; takes the weights. Options: weights must not be int8; those of beam
// searches are ignored.
std::unique_ptr<Executor> make_cpu_sasrec(SasrecModel model, const DecoderOptions& options);

// Returns the plan of a history of at least one event, oldest first, and items to score: the events but
// the last, and the last event, each a segment. Readouts: the items' logits and the state at the last event.
Plan sasrec_plan(const std::vector<Token>& history, std::vector<Token> items);

}  // namespace troupe::kernels
