// Describes what a decoder (Qwen, Llama) can compute and what lies in its pages, the same for CPU
// and devices.
#include "kernels/decoder/decoder.h"

namespace troupe::kernels {

PlanLimits plan_limits(const DecoderConfig& config) {
  PlanLimits limits{static_cast<std::int32_t>(config.vocabulary),
                    static_cast<std::int32_t>(config.positions_max)};
  limits.state = config.hidden;
  limits.width_max = search_width_max;
  limits.repairs = true;
  return limits;
}

PageLayout page_layout(const KvLayout& layout) {
  return {layout.page_bytes(), layout.page_tokens,
          "keys and values of " + std::to_string(layout.layers) + " layers, " +
              std::to_string(layout.kv_heads) + " heads of " + std::to_string(layout.head_dim) +
              (layout.value_dim > 0 ? " and " + std::to_string(layout.value_dim) : "") + ", " +
              std::string(format_name(layout.format))};
}

}  // namespace troupe::kernels
