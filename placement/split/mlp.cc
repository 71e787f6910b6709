// Small dense neural network with training by Adam, used by the learned policies that split the
// pool.
#include "placement/split/mlp.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"

namespace troupe::placement {
namespace {

// Computes outputs = biases + sum over the inputs of input * its row of weights.
void run_layer(const float* weights, std::span<const float> inputs, std::span<float> outputs, bool rectify) {
  const std::size_t width = outputs.size();
  float* __restrict to = outputs.data();
  std::copy_n(weights, width, to);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const float* __restrict row = weights + (i + 1) * width;
    const float x = inputs[i];
    if (x == 0) continue;  // skips the zeros that rectifying leaves, about half of the inputs
    for (std::size_t o = 0; o < width; ++o) to[o] += x * row[o];
  }
  if (rectify)
    for (std::size_t o = 0; o < width; ++o) to[o] = to[o] > 0 ? to[o] : 0;
}

}  // namespace

Mlp::Mlp(std::vector<std::uint32_t> widths) : widths_(std::move(widths)) {
  TROUPE_CHECK(widths_.size() >= 2 && widths_.size() <= layers_max + 1, "a network has one to four layers");
  std::size_t count = 0;
  for (std::size_t layer = 0; layer + 1 < widths_.size(); ++layer) {
    TROUPE_CHECK(widths_[layer] > 0 && widths_[layer] <= width_max && widths_[layer + 1] <= width_max,
                 "layers are small");
    begins_.push_back(count);
    count += std::size_t{widths_[layer] + 1} * widths_[layer + 1];
  }
  weights_.resize(count);
}

void Mlp::draw(std::uint64_t seed, float last) {
  std::uint64_t state = spread(seed);
  const auto unit = [&] { return static_cast<double>((state = spread(state)) >> 11) * 0x1p-53; };
  for (std::size_t layer = 0; layer + 1 < widths_.size(); ++layer) {
    const bool is_last = layer + 2 == widths_.size();
    const double scale = std::sqrt(2.0 / widths_[layer]) * (is_last ? last : 1);
    const std::size_t from = begins_[layer] + widths_[layer + 1];
    for (std::size_t i = 0; i < std::size_t{widths_[layer]} * widths_[layer + 1]; ++i) {
      const double normal = std::sqrt(-2 * std::log(1 - unit())) * std::cos(6.283185307179586 * unit());
      weights_[from + i] = static_cast<float>(scale * normal);
    }
  }
}

void Mlp::run(std::span<const float> inputs, std::span<float> outputs) const {
  std::array<float, width_max> one, other;
  std::span<const float> from = inputs;
  for (std::size_t layer = 0; layer + 1 < widths_.size(); ++layer) {
    const bool is_last = layer + 2 == widths_.size();
    const std::span<float> to =
        is_last ? outputs : std::span<float>(layer % 2 == 0 ? one : other).first(widths_[layer + 1]);
    run_layer(weights_.data() + begins_[layer], from, to, !is_last);
    from = to;
  }
}

void Mlp::forward(std::span<const float> inputs) {
  if (gradient_.empty()) {
    gradient_.resize(weights_.size());
    first_.resize(weights_.size());
    second_.resize(weights_.size());
    for (const std::uint32_t width : widths_) {
      values_.emplace_back(width);
      slopes_.emplace_back(width);
    }
  }
  std::ranges::copy(inputs, values_[0].begin());
  for (std::size_t layer = 0; layer + 1 < widths_.size(); ++layer)
    run_layer(weights_.data() + begins_[layer], values_[layer], values_[layer + 1],
              layer + 2 < widths_.size());
  ++examples_;
}

void Mlp::backward() {
  for (std::size_t layer = widths_.size() - 1; layer-- > 0;) {
    const std::size_t width = widths_[layer + 1];
    std::vector<float>& slopes = slopes_[layer + 1];
    if (layer + 2 < widths_.size())
      for (std::size_t o = 0; o < width; ++o)
        if (values_[layer + 1][o] <= 0) slopes[o] = 0;
    float* gradient = gradient_.data() + begins_[layer];
    const float* weights = weights_.data() + begins_[layer];
    for (std::size_t o = 0; o < width; ++o) gradient[o] += slopes[o];
    for (std::size_t i = 0; i < widths_[layer]; ++i) {
      const float x = values_[layer][i];
      float* row = gradient + (i + 1) * width;
      const float* weight = weights + (i + 1) * width;
      float slope = 0;
      for (std::size_t o = 0; o < width; ++o) {
        row[o] += x * slopes[o];
        slope += weight[o] * slopes[o];
      }
      slopes_[layer][i] = slope;
    }
  }
}

void Mlp::step(float rate) {
  if (examples_ == 0) return;
  ++steps_;
  const double keep_first = 0.9, keep_second = 0.999;
  const auto right = static_cast<float>(rate * std::sqrt(1 - std::pow(keep_second, steps_)) /
                                        (1 - std::pow(keep_first, steps_)));
  const float share = 1.0F / static_cast<float>(examples_);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const float g = gradient_[i] * share;
    first_[i] += 0.1F * (g - first_[i]);
    second_[i] += 0.001F * (g * g - second_[i]);
    weights_[i] -= right * first_[i] / (std::sqrt(second_[i]) + 1e-8F);
    gradient_[i] = 0;
  }
  examples_ = 0;
}

}  // namespace troupe::placement
