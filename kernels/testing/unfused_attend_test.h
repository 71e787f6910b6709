#pragma once
// Attention as separate operations, each over whole matrices: scores, scale and mask, softmax, weighted sum.
// They run on the engine's own products and element-wise kernels, so that what remains is what fusing them
// into one pass gains (FLAME's Table 4, "TensorRT API" without "Kernel Fusion"). Keys and values in float32,
// not rotated; no mass, no mask.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/cpu/products/product.h"
#include "kernels/operations/attend.h"
#include "kernels/operations/elementwise.h"

namespace troupe::kernels {

class UnfusedAttend {
 public:
  void run(const AttendTask& task) {
    TROUPE_CHECK(task.mask == nullptr && task.mass == nullptr, "unfused attention has no mask and no mass");
    task_ = &task;
    gather();
    const ProductVersion& version = product_version();
    WeightMemory memory(bytes_of(2 * (keys_.values.size() + values_.values.size())));
    const PackedMatrix keys(keys_, {}, version.panel_width, memory);
    const PackedMatrix values(values_, {}, version.panel_width, memory);
    scores_.resize(std::size_t{task.rows} * tokens());
    ones_.assign(scores_.size(), 1);
    weights_.resize(scores_.size());
    for (std::uint32_t head = 0; head < task.heads; ++head) {
      const std::size_t column = std::size_t{head} * task.head_dim;
      version.run(keys, {.in = task.queries + column,
                         .in_stride = task.query_stride,
                         .out = scores_.data(),
                         .out_stride = tokens(),
                         .rows = task.rows});
      scale_and_mask();
      softmax();
      version.run(values, {.in = weights_.data(),
                           .in_stride = tokens(),
                           .out = task.out + column,
                           .out_stride = task.out_stride,
                           .rows = task.rows});
    }
  }

 private:
  static std::size_t bytes_of(std::size_t floats) { return (floats + 4096) * sizeof(float); }
  std::size_t tokens() const { return keys_.rows; }

  // Copies the keys of all runs, and the values transposed, as the products want them.
  void gather() {
    const std::uint32_t d = task_->head_dim;
    std::uint32_t count = 0;
    for (const auto runs : {task_->context, task_->tail})
      for (const KvRun& run : runs) count += run.tokens;
    context_ = count;
    for (const KvRun& run : task_->tail) context_ -= run.tokens;
    keys_ = {count, d, std::vector<float>(std::size_t{count} * d)};
    values_ = {d, count, std::vector<float>(std::size_t{count} * d)};
    std::size_t token = 0;
    for (const auto runs : {task_->context, task_->tail}) {
      for (const KvRun& run : runs) {
        TROUPE_CHECK(run.format == KvFormat::f32 && run.cosines == nullptr,
                     "unfused attention is in float32");
        for (std::uint32_t t = 0; t < run.tokens; ++t, ++token) copy(run, t, token);
      }
    }
  }

  void copy(const KvRun& run, std::uint32_t t, std::size_t token) {
    const float* const key = static_cast<const float*>(run.keys) + std::size_t{t} * run.stride;
    const float* const value =
        static_cast<const float*>(run.values) + std::size_t{t} * run.stride_of_values();
    std::copy_n(key, keys_.columns, &keys_.values[token * keys_.columns]);
    for (std::uint32_t i = 0; i < values_.rows; ++i) values_.values[i * values_.columns + token] = value[i];
  }

  void scale_and_mask() {
    for (float& score : scores_) score *= task_->scale;
    for (std::uint32_t row = 0; row < task_->rows; ++row) {
      float* const tail = &scores_[row * tokens() + context_];
      std::fill(tail, tail + task_->tail_begin[row], -INFINITY);
      std::fill(tail + task_->tail_end[row], tail + (tokens() - context_), -INFINITY);
    }
  }

  // The exponential is s / (1 - s) with the sigmoid s, which has a vector kernel.
  void softmax() {
    for (std::uint32_t row = 0; row < task_->rows; ++row) {
      float* const scores = &scores_[row * tokens()];
      const float most = *std::max_element(scores, scores + tokens());
      for (std::size_t t = 0; t < tokens(); ++t) scores[t] -= most;
    }
    elementwise().sigmoid_gate(ones_.data(), tokens(), scores_.data(), weights_.data(), tokens(), task_->rows,
                               tokens());
    for (std::uint32_t row = 0; row < task_->rows; ++row) {
      float* const weights = &weights_[row * tokens()];
      float total = 0;
      for (std::size_t t = 0; t < tokens(); ++t) total += weights[t] /= 1 - weights[t];
      for (std::size_t t = 0; t < tokens(); ++t) weights[t] /= total;
    }
  }

  const AttendTask* task_ = nullptr;
  std::size_t context_ = 0;  // tokens before the tail
  Matrix keys_, values_;     // [tokens][head_dim], [head_dim][tokens]
  std::vector<float> scores_, ones_, weights_;
};

// Every row of the task sees at least one key.
inline void unfused_attend(const AttendTask& task, AttendScratch&) {
  thread_local UnfusedAttend attend;
  attend.run(task);
}

}  // namespace troupe::kernels
