// Computes the softmax attention of Meta's research code row by row, for models of research size.
#include "kernels/hstu/whole_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/base/float_formats.h"

namespace troupe::kernels {
namespace {

float widened(const void* numbers, KvFormat format, std::size_t i) {
  if (format == KvFormat::f16) return from_f16(static_cast<const std::uint16_t*>(numbers)[i]);
  if (format == KvFormat::bf16) return from_bf16(static_cast<const std::uint16_t*>(numbers)[i]);
  return static_cast<const float*>(numbers)[i];
}

// The bias of one row, key by key in order.
class RowBias {
 public:
  RowBias(const PairBias& bias, std::uint32_t row)
      : bias_(bias), by_distance_(bias.by_distance == nullptr ? nullptr : bias.by_distance) {
    if (by_distance_ == nullptr) return;
    by_distance_ -= bias.row_positions[row];
    step_ = bias.step_begin[row];
    end_ = bias.step_end[row];
  }
  double of_key(std::uint32_t key) {
    if (by_distance_ == nullptr) return 0;
    while (step_ + 1 < end_ && bias_.steps[step_ + 1].key <= key) ++step_;
    return double{by_distance_[bias_.key_positions[key]]} + bias_.by_bucket[bias_.steps[step_].bucket];
  }
  double of_padding(std::uint32_t position, std::uint32_t bucket) const {
    return by_distance_ == nullptr ? 0 : double{by_distance_[position]} + bias_.by_bucket[bucket];
  }

 private:
  const PairBias& bias_;
  const float* by_distance_;
  std::uint32_t step_ = 0, end_ = 0;
};

// Writes the logits of all positions: keys, then padding.
void write_logits(const WholeSoftmaxTask& task, std::uint32_t row, std::span<double> logits) {
  const SiluAttendTask& pairs = task.pairs;
  const KvRun& run = pairs.tail.front();
  const float* const query = pairs.queries + row * pairs.query_stride;
  RowBias bias(pairs.bias, row);
  for (std::uint32_t key = 0; key < run.tokens; ++key) {
    double dot = 0;
    for (std::uint32_t i = 0; i < pairs.head_dim; ++i)
      dot += double{query[i]} * widened(run.keys, run.format, std::size_t{key} * run.stride + i);
    logits[key] = pairs.scale * (dot + bias.of_key(key));
  }
  const bool timed = pairs.bias.by_distance != nullptr;
  const auto bucket = [&](std::int64_t time) {
    return timed ? task.buckets->bucket(seconds_between(task.row_times[row], time)) : 0;
  };
  const std::uint32_t next = bucket(task.now), later = bucket(0);
  for (std::uint32_t position = run.tokens; position < task.positions; ++position)
    logits[position] = pairs.scale * bias.of_padding(position, position == run.tokens ? next : later);
}

}  // namespace

void attend_whole(const WholeSoftmaxTask& task, std::vector<double>& weights) {
  const SiluAttendTask& pairs = task.pairs;
  TROUPE_CHECK(pairs.context.empty() && pairs.tail.size() == 1 && pairs.tail.front().tokens <= task.positions,
               "hstu: with a softmax all keys are rows of the same segment");
  const KvRun& run = pairs.tail.front();
  const std::uint32_t width = pairs.numbers_of_value();
  weights.resize(task.positions + width);
  const std::span<double> logits(weights.data(), task.positions),
      sums(weights.data() + task.positions, width);
  for (std::uint32_t row = 0; row < pairs.rows; ++row) {
    write_logits(task, row, logits);
    const double largest = *std::ranges::max_element(logits);
    double all = 0;
    for (double& logit : logits) all += logit = std::exp(logit - largest);
    std::ranges::fill(sums, 0);
    for (std::int32_t key = 0; key <= task.row_at[row]; ++key)
      for (std::uint32_t i = 0; i < width; ++i)
        sums[i] +=
            logits[static_cast<std::size_t>(key)] *
            widened(run.values, run.format, static_cast<std::size_t>(key) * run.stride_of_values() + i);
    float* const out = pairs.out + row * pairs.out_stride;
    for (std::uint32_t i = 0; i < width; ++i) out[i] = static_cast<float>(sums[i] / all);
  }
}

}  // namespace troupe::kernels
