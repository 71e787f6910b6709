// Runs HLEM's base policy, a network that moves alpha (the share of the pool for embedding rows) by
// one of seven steps.
#include "placement/split/ppo.h"

#include <algorithm>

namespace troupe::placement {

Mlp base_network() { return Mlp({state_values, 64, 128, static_cast<std::uint32_t>(alpha_steps.size())}); }

std::array<float, state_values> inputs_of(const SplitState& state) {
  std::array<float, state_values> inputs;
  const auto values = values_of(state);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(2 * values[i] - 1);
  return inputs;
}

double PpoSplit::step_of(const SplitState& state) const {
  std::array<float, alpha_steps.size()> outputs;
  network_.run(inputs_of(state), outputs);
  return alpha_steps[static_cast<std::size_t>(std::ranges::max_element(outputs) - outputs.begin())];
}

double PpoSplit::next_alpha(const SplitView& view) {
  return clip_alpha(view.state.alpha + step_of(view.state));
}

}  // namespace troupe::placement
