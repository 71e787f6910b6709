// Computes the task head of an HSTU model.
#include <algorithm>
#include <cmath>

#include "kernels/hstu/cpu_hstu.h"

namespace troupe::kernels {
namespace {

double activated(HstuHeadActivation activation, double z) {
  switch (activation) {
    case HstuHeadActivation::silu:
      return z / (1 + std::exp(-z));
    case HstuHeadActivation::relu:
      return std::max(z, 0.0);
    case HstuHeadActivation::gelu:
      break;
  }
  return z / 2 * (1 + std::erf(z / std::sqrt(2.0)));
}

}  // namespace

// Tasks of one row are read one after the other, so that the head is computed once for all of them.
void CpuHstu::read_head(const BatchReadout& readout, std::vector<float>& out) {
  if (readout.read_row != head_row_) compute_head(state(readout.read_row));
  head_row_ = readout.read_row;
  out.assign(1, head_out_[readout.head]);
}

void CpuHstu::compute_head(const float* state) {
  head_in_.resize(c_.hidden);
  if (c_.nvidia()) {
    const float length = std::max(length_of(state, c_.hidden), static_cast<float>(c_.head_epsilon));
    for (std::size_t i = 0; i < c_.hidden; ++i) head_in_[i] = state[i] / length;
  } else {
    NormTask norm{.in = state, .out = head_in_.data()};
    norm.rows = 1;
    norm.width = c_.hidden;
    norm.epsilon = static_cast<float>(c_.epsilon);
    kernels_.gates->norm(norm);
  }
  const PackedHead& head = weights_->head;
  for (std::size_t i = 0; i < head.layers.size(); ++i) {
    const bool last = i + 1 == head.layers.size();
    const std::size_t outputs = last ? c_.tasks : c_.nvidia() ? c_.head_layers[i] : c_.head_hidden;
    head_out_.resize(outputs);
    head.layers[i].run(head_in_.data(), head_out_.data(), 1);
    if (last) return;
    for (float& value : head_out_) value = static_cast<float>(activated(head.activation, double{value}));
    head_in_.swap(head_out_);
  }
}

}  // namespace troupe::kernels
