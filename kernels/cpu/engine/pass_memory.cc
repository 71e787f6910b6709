// Counts the memory that a forward pass on the CPU needs for so many tokens, beside weights and
// pages. Admission asks it first, so that a batch is split or refused before it runs.
#include "kernels/cpu/engine/pass_memory.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/engine/beam_tails.h"

namespace troupe::kernels {

RowWidths row_widths(const DecoderConfig& config) {
  const std::size_t queries = std::size_t{config.heads} * config.head_dim;
  const std::size_t keys_values = std::size_t{2} * config.kv_heads * config.head_dim;
  return {config.hidden, queries + keys_values, queries};
}

RowMemory divide_memory(std::size_t row_bytes, std::size_t longest, const DecoderOptions& options) {
  if (options.memory_bytes == 0) return {row_bytes, SIZE_MAX, SIZE_MAX};
  const std::size_t share = options.memory_bytes / std::max(1u, options.executors);
  const std::size_t batch = std::max(1u, options.batch_tokens);
  return {row_bytes, std::max({options.memory_bytes / row_bytes, batch, longest}),
          std::max(share / row_bytes, batch)};
}

PassMemory pass_memory(const DecoderConfig& config, const DecoderOptions& options) {
  const RowWidths widths = row_widths(config);
  // Each part of attention packs the keys that it sees, of one head at a time.
  const std::size_t packed = std::size_t{2} * config.head_dim * std::min(options.cores, config.kv_heads);
  const std::size_t angles = config.head_dim;             // cosines and sines of its position
  const std::size_t planned = 8 * sizeof(std::uint32_t);  // the planner's data per row, with growth
  const KvLayout layout = kv_layout(config, options.page_tokens, options.kv);
  const std::size_t row_bytes = (widths.state + widths.qkv + widths.mixed + angles + packed) * sizeof(float) +
                                planned + 2 * layout.kv_heads * layout.vector_bytes();
  PassMemory memory{divide_memory(row_bytes, config.positions_max, options), SIZE_MAX};
  if (options.memory_bytes == 0) return memory;
  const std::size_t share = options.memory_bytes / std::max(1u, options.executors);
  const std::size_t batch = std::max(1u, options.batch_tokens);
  memory.search_bytes_max = std::max(share, batch * (row_bytes + layout.token_bytes()));
  return memory;
}

std::size_t search_bytes(const DecoderConfig& config, const DecoderOptions& options, const Request& request) {
  const Plan& plan = *request.plan;
  const Search& search = plan.search;
  const KvLayout layout = kv_layout(config, options.page_tokens, options.kv);
  std::size_t pages = 0, steps = search.steps;
  VisibleSegments seen = plan.segments[search.segment].sees;
  seen.add(search.segment);
  for (const std::uint32_t s : seen)
    if (request.kv[s].pages.empty()) pages += layout.pages_for(plan.segments[s].tokens.size());
  // A path needs as many logits as tokens may follow it, and a level no more than the index has.
  std::size_t logits = std::size_t{search.width} * config.vocabulary;
  if (!search.allowed.empty()) {
    for (const Tokens& path : search.allowed) steps = std::max(steps, path.size());
    logits = search.allowed.size();
  } else if (const auto paths = request.paths()) {
    steps = paths->depth();
    logits = std::min<std::size_t>(std::size_t{search.width} * paths->width_max(), paths->nodes());
  }
  return pages * layout.page_bytes() + logits * sizeof(float) +
         BeamTails::bytes(layout, search.width, static_cast<std::uint32_t>(steps), options.beams) +
         BeamTails::mask_bytes(search.width, static_cast<std::uint32_t>(steps), options.beams);
}

std::size_t repair_bytes(const DecoderConfig& config, const DecoderOptions& options, const Plan& plan) {
  const Repair& repair = plan.repair;
  if (repair.reused_spans.empty()) return 0;
  std::size_t longest = 0;
  for (const Repair::ReusedSpan& reused : repair.reused_spans)
    longest = std::max(longest, plan.segments[reused.segment].tokens.size());
  const std::size_t offsets = repair.mean ? repair.budgets.size() * longest : 0;
  const std::size_t parts = repair.attention > 0 ? std::max(config.kv_heads, 2 * options.cores) : 0;
  constexpr std::size_t notes = 16 * sizeof(std::uint32_t);  // per token, in all lists of tokens
  return token_count(plan) * (notes + parts * sizeof(float)) +
         offsets * config.kv_heads * (2 * config.head_dim + 1) * sizeof(float);
}

}  // namespace troupe::kernels
