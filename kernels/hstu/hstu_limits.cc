// Derives what an HSTU model accepts and takes: limits of plans, pages, and memory of passes.
#include <algorithm>

#include "kernels/cpu/engine/item_search.h"
#include "kernels/hstu/event_tokens.h"
#include "kernels/hstu/hstu.h"
#include "kernels/operations/silu_attend.h"

namespace troupe::kernels {
namespace {

std::string action_fault(const HstuConfig& config, const Segment& segment, std::size_t number) {
  const std::size_t features = config.features(), tokens = segment.tokens.size();
  for (std::size_t i = 0; i < tokens; ++i) {
    const std::int64_t action = segment.features[(i + 1) * features - 1];
    const bool context = segment.start + static_cast<std::int64_t>(i) < config.contexts();
    const bool none = action == -1 && config.nvidia() && (context || tokens == 1);
    if (none || (!context && action >= 0 && action < static_cast<std::int64_t>(config.actions))) continue;
    return "segment " + std::to_string(number) + ", token " + std::to_string(i) + ": action " +
           std::to_string(action) + "; expected " +
           (context ? "-1, for a contextual feature" : "0 to " + std::to_string(config.actions - 1));
  }
  return "";
}

// Returns the first token that is a row of another table than its position's. A contextual feature's tokens
// stand behind the items (event_tokens.h).
std::string table_fault(const HstuConfig& config, const Segment& segment, std::size_t number) {
  for (std::size_t i = 0; i < segment.tokens.size(); ++i) {
    const std::size_t position = static_cast<std::size_t>(segment.start) + i;
    std::uint32_t first = 0, rows = config.vocabulary;
    if (position < config.contexts()) {
      first = config.vocabulary, rows = config.context_rows[position];
      for (std::size_t k = 0; k < position; ++k) first += config.context_rows[k];
    }
    const auto token = static_cast<std::uint32_t>(segment.tokens[i]);
    if (token >= first && token - first < rows) continue;
    return "segment " + std::to_string(number) + ", token " + std::to_string(i) + ": " +
           std::to_string(token) + "; expected " + std::to_string(first) + " to " +
           std::to_string(first + rows - 1) + ", " +
           (first == 0 ? "an item" : "a row of contextual feature " + std::to_string(position));
  }
  return "";
}

std::string read_item_fault(const HstuConfig& config, const Readout& readout, std::size_t number) {
  for (const Token row : readout.rows)
    if (static_cast<std::uint32_t>(row) >= config.vocabulary)
      return "readout " + std::to_string(number) + ": row " + std::to_string(row) + "; expected 0 to " +
             std::to_string(config.vocabulary - 1) + ", an item";
  return "";
}

// With contextual features, limits allow their tokens everywhere.
std::string context_fault(const HstuConfig& config, const Plan& plan) {
  for (std::size_t s = 0; s < plan.segments.size(); ++s)
    if (std::string fault = table_fault(config, plan.segments[s], s); !fault.empty()) return fault;
  for (std::size_t r = 0; r < plan.readouts.size(); ++r)
    if (std::string fault = read_item_fault(config, plan.readouts[r], r); !fault.empty()) return fault;
  return "";
}

}  // namespace

PlanLimits plan_limits(const HstuConfig& config) {
  PlanLimits limits = token_limits(config);
  limits.vocabulary = static_cast<std::int32_t>(config.vocabulary + config.context_vocabulary());
  limits.positions_max = static_cast<std::int32_t>(config.contexts() + config.history() + 1);
  limits.features = config.features();
  return limits;
}

PlanLimits plan_limits(const HstuConfig& config, ItemRows items) {
  PlanLimits limits = plan_limits(config);
  if (!config.production() && items == ItemRows::in_memory) allow_item_search(limits);
  return limits;
}

std::string plan_fault(const HstuConfig& config, const Plan& plan) {
  if (config.softmax && (plan.segments.size() != 1 || plan.segments[0].start != 0))
    return "a plan of " + std::to_string(plan.segments.size()) +
           " segments; expected the whole history as one segment, as each row depends on all of it";
  for (std::size_t s = 0; config.actions > 0 && s < plan.segments.size(); ++s)
    if (std::string fault = action_fault(config, plan.segments[s], s); !fault.empty()) return fault;
  return config.contexts() > 0 ? context_fault(config, plan) : "";
}

KvLayout kv_layout(const HstuConfig& config, std::uint32_t page_tokens, KvFormat format) {
  return {config.layers, config.heads,    config.head_dim, page_tokens * config.event_tokens(),
          format,        config.value_dim};
}

PageLayout page_layout(const HstuConfig& config, const DecoderOptions& options) {
  PageLayout layout = page_layout(kv_layout(config, options.page_tokens, options.kv));
  layout.page_tokens = options.page_tokens;
  if (config.event_tokens() > 1) layout.content += ", two tokens of each event";
  return layout;
}

HstuPassMemory pass_memory(const HstuConfig& config, const DecoderOptions& options) {
  const std::size_t widths =
      std::size_t{config.hidden} + config.projected() + config.width() + config.mixed();
  const std::size_t packed =
      std::size_t{config.head_dim + config.numbers_of_value()} * std::min(options.cores, config.heads);
  const KvLayout layout = kv_layout(config, options.page_tokens, options.kv);
  const std::size_t planned = 24 * sizeof(std::uint32_t) + 2 * (config.time_buckets + 1) * sizeof(BucketStep);
  const std::size_t row_bytes = (widths + packed) * sizeof(float) + planned +
                                layout.kv_heads * (layout.vector_bytes() + layout.value_vector_bytes());
  const std::size_t longest = std::size_t{config.contexts()} + config.history() + 1;
  return {divide_memory(row_bytes * config.event_tokens(), longest, options),
          std::size_t{2} * (config.time_buckets + 1)};
}

}  // namespace troupe::kernels
