#pragma once
// A small dense network, for policies that learn: layers with rectified outputs but the last, which is
// linear. Weights lie input by input, so that a layer is a sum of rows and the compiler's vectors do it; a
// decision of HLEM's policy (7, 64, 128, 7) takes a microsecond. Learning is Adam on what its caller says of
// the outputs.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::placement {

class Mlp {
 public:
  static constexpr std::size_t layers_max = 4, width_max = 256;

  Mlp() = default;
  // From the inputs to the outputs: two to five widths, each at most `width_max`. Weights are zero.
  explicit Mlp(std::vector<std::uint32_t> widths);
  // By He's rule, the last layer smaller by `last`; 0: it is zero.
  void draw(std::uint64_t seed, float last);

  // `outputs` has room for as many as there are.
  void run(std::span<const float> inputs, std::span<float> outputs) const;

  // One example's part of the gradient: the outputs are told to `loss`, which answers their derivatives.
  template <class Loss>
  void learn(std::span<const float> inputs, const Loss& loss);
  void step(float rate);  // takes the gradient of all since the last step

  const std::vector<std::uint32_t>& widths() const { return widths_; }
  std::span<const float> weights() const { return weights_; }
  std::span<float> weights() { return weights_; }
  bool empty() const { return widths_.empty(); }

 private:
  std::size_t begin_of(std::size_t layer) const { return begins_[layer]; }
  void forward(std::span<const float> inputs);
  void backward();

  std::vector<std::uint32_t> widths_;
  std::vector<std::size_t> begins_;  // of each layer's weights: its biases, then a row for each input
  std::vector<float> weights_;
  // While it learns.
  std::vector<float> gradient_, first_, second_;
  std::vector<std::vector<float>> values_, slopes_;  // of each layer's outputs; the first are the inputs
  std::uint64_t steps_ = 0, examples_ = 0;
};

template <class Loss>
void Mlp::learn(std::span<const float> inputs, const Loss& loss) {
  forward(inputs);
  loss(std::span<const float>(values_.back()), std::span<float>(slopes_.back()));
  backward();
}

}  // namespace troupe::placement
