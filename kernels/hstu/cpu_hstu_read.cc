// Reads the outputs of an HSTU pass: states, tasks of the head, and next-item logits.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cpu/engine/decoder_workspace.h"
#include "kernels/hstu/cpu_hstu.h"

namespace troupe::kernels {
namespace {

float length_of(const float* values, std::size_t count) {
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) squares += double{values[i]} * values[i];
  return static_cast<float>(std::sqrt(squares));
}

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

float item_scale_of(const HstuConfig& c, const float* item) {
  const float length = c.item_l2 ? std::max(length_of(item, c.item_columns()), float(c.l2_epsilon)) : 1;
  return 1 / (length * float(c.temperature));
}

void CpuHstu::read(std::span<const Request> requests, std::span<Reply> replies) {
  PartTimer timer(timed(workspaces_[0], &PassTimes::readout));
  for (std::size_t i = 0; i < requests.size(); ++i)
    replies[i].readouts.resize(requests[i].plan->readouts.size());
  head_row_ = UINT32_MAX;
  const std::span<const BatchReadout> all = batch_->readouts;
  for (std::size_t first = 0; first < all.size();) {
    std::vector<float>& out = replies[all[first].request].readouts[all[first].index];
    if (all[first].what == Readout::What::state) {
      out.assign(state(all[first].read_row), state(all[first].read_row) + c_.hidden);
      ++first;
    } else if (all[first].what == Readout::What::head) {
      read_head(all[first++], out);
    } else {
      const std::size_t end = end_of_alike(first);
      read_next_items(first, end, replies);
      first = end;
    }
  }
}

// Returns the end of the readouts from `first` on that ask for logits of the same items; a readout
// of another kind is a run of one.
std::size_t CpuHstu::end_of_alike(std::size_t first) const {
  const std::span<const BatchReadout> all = batch_->readouts;
  const auto reads_items = [](const BatchReadout& readout) {
    return readout.what != Readout::What::state && readout.what != Readout::What::head;
  };
  std::size_t end = first + 1;
  if (!reads_items(all[first])) return end;
  while (end < all.size() && reads_items(all[end]) &&
         std::ranges::equal(all[end].vocabulary_rows, all[first].vocabulary_rows))
    ++end;
  return end;
}

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

// Computes logits of the same items for the readouts [first, end).
void CpuHstu::read_next_items(std::size_t first, std::size_t end, std::span<Reply> replies) {
  const std::span<const BatchReadout> all = batch_->readouts;
  std::span<const Token> rows = all[first].vocabulary_rows;
  const Matrix& items = weights_->table ? read_items_ : weights_->items;
  if (weights_->table) {
    const float* const gathered = state_.data() + gathered_at_[first] * c_.hidden;
    read_items_ = {
        static_cast<std::uint32_t>(rows.size()), c_.hidden, {gathered, gathered + rows.size() * c_.hidden}};
    read_item_rows_.resize(rows.size());
    std::iota(read_item_rows_.begin(), read_item_rows_.end(), 0);
    rows = read_item_rows_;
  }
  norm_states(all.subspan(first, end - first));
  readout_states_.clear();
  readout_out_.clear();
  for (std::size_t i = first; i < end; ++i) {
    std::vector<float>& out = replies[all[i].request].readouts[all[i].index];
    out.resize(rows.size());
    readout_states_.push_back(normed_states_.data() + (i - first) * c_.item_columns());
    readout_out_.push_back(out.data());
  }
  kernels_.readout(readout_states_, items, rows, readout_out_);
  for (float* const out : readout_out_)
    for (std::size_t i = 0; i < rows.size(); ++i) out[i] *= item_scale(items, rows[i]);
}

// Norms the states that these readouts read, up to the columns that items have.
void CpuHstu::norm_states(std::span<const BatchReadout> readouts) {
  const std::size_t columns = c_.item_columns();
  normed_states_.resize(readouts.size() * columns);
  for (std::size_t i = 0; i < readouts.size(); ++i)
    norm_state(state(readouts[i].read_row), normed_states_.data() + i * columns);
}

// Norms the columns of a state that items have; in place, too.
void CpuHstu::norm_state(const float* from, float* to) const {
  const std::size_t columns = c_.item_columns();
  const auto epsilon = static_cast<float>(c_.state_epsilon());
  if (c_.output_norm == HstuOutputNorm::layer_norm) {
    NormTask norm{.in = from, .out = to};
    norm.rows = 1;
    norm.width = columns;
    norm.epsilon = epsilon;
    kernels_.gates->norm(norm);
    return;
  }
  const float length = std::max(length_of(from, columns), epsilon);
  for (std::size_t k = 0; k < columns; ++k) to[k] = from[k] / length;
}

float CpuHstu::item_scale(const Matrix& items, Token row) const {
  const auto at = static_cast<std::size_t>(row);
  return weights_->table ? item_scale_of(c_, &items.values[at * c_.hidden]) : weights_->item_scales[at];
}

}  // namespace troupe::kernels
