#pragma once
// Implements a small dense network for policies that learn: rectified outputs in all layers but the
// last, which is linear. Weights are stored input by input, so that a layer is a sum of rows that
// the compiler vectorizes; a decision of HLEM's policy (7, 64, 128, 7) takes a microsecond.
// Training uses Adam on derivatives that the caller supplies.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::placement {

class Mlp {
 public:
  static constexpr std::size_t layers_max = 4, width_max = 256;

  Mlp() = default;
  // Constructs a network with zero weights. `widths`: from the inputs to the outputs, two to five,
  // each at most `width_max`.
  explicit Mlp(std::vector<std::uint32_t> widths);
  // Draws weights by He's rule, the last layer scaled by `last` (0 = a zero last layer).
  void draw(std::uint64_t seed, float last);

  // Computes the outputs; `outputs` must have the size of the last layer.
  void run(std::span<const float> inputs, std::span<float> outputs) const;

  // Adds one example to the gradient. `loss` gets the outputs and writes their derivatives.
  template <class Loss>
  void learn(std::span<const float> inputs, const Loss& loss);
  void step(float rate);  // applies the gradient of all examples since the last step

  const std::vector<std::uint32_t>& widths() const { return widths_; }
  std::span<const float> weights() const { return weights_; }
  std::span<float> weights() { return weights_; }
  bool empty() const { return widths_.empty(); }

 private:
  void forward(std::span<const float> inputs);
  void backward();

  std::vector<std::uint32_t> widths_;
  std::vector<std::size_t> begins_;  // offset of each layer's weights: its biases, then a row per input
  std::vector<float> weights_;
  // Training state: Adam's moments.
  std::vector<float> gradient_, first_, second_;
  // [layer] outputs and their derivatives; entry 0 is the inputs.
  std::vector<std::vector<float>> values_, slopes_;
  std::uint64_t steps_ = 0, examples_ = 0;
};

template <class Loss>
void Mlp::learn(std::span<const float> inputs, const Loss& loss) {
  forward(inputs);
  loss(std::span<const float>(values_.back()), std::span<float>(slopes_.back()));
  backward();
}

}  // namespace troupe::placement
