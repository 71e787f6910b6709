// Defines HSTU's attention by SiLU instead of a softmax: every visible pair, in double, one row at
// a time. Faster versions are tested against it.
#include "kernels/operations/silu_attend.h"

#include <cmath>
#include <vector>

#include "kernels/base/float_formats.h"

namespace troupe::kernels {
namespace {

struct SeenToken {
  const KvRun* run;
  std::size_t at;  // in the run
};

double stored_number(const void* numbers, KvFormat format, std::size_t i) {
  if (format == KvFormat::f16) return from_f16(static_cast<const std::uint16_t*>(numbers)[i]);
  if (format == KvFormat::bf16) return from_bf16(static_cast<const std::uint16_t*>(numbers)[i]);
  return static_cast<const float*>(numbers)[i];
}

double bias_of(const PairBias& bias, std::uint32_t row, std::uint32_t key) {
  if (bias.by_distance == nullptr) return 0;
  std::uint32_t step = bias.step_begin[row];
  while (step + 1 < bias.step_end[row] && bias.steps[step + 1].key <= key) ++step;
  return double(bias.by_distance[bias.key_positions[key] - bias.row_positions[row]]) +
         bias.by_bucket[bias.steps[step].bucket];
}

}  // namespace

void silu_attend_reference(const SiluAttendTask& task, AttendScratch&) {
  std::vector<SeenToken> keys;
  for (const KvRun& run : task.context)
    for (std::size_t t = 0; t < run.tokens; ++t) keys.push_back({&run, t});
  const std::size_t context = keys.size();
  for (const KvRun& run : task.tail)
    for (std::size_t t = 0; t < run.tokens; ++t) keys.push_back({&run, t});
  for (std::uint32_t row = 0; row < task.rows; ++row) {
    std::vector<double> sum(task.numbers_of_value(), 0.0);
    const float* const query = task.queries + row * task.query_stride;
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const bool seen = k < context ? (task.context_begin.empty() || k >= task.context_begin[row]) &&
                                          (task.context_end.empty() || k < task.context_end[row])
                                    : k - context >= task.tail_begin[row] && k - context < task.tail_end[row];
      if (!seen) continue;
      const KvRun& run = *keys[k].run;
      double dot = 0;
      for (std::uint32_t i = 0; i < task.head_dim; ++i)
        dot += double(query[i]) * stored_number(run.keys, run.format, keys[k].at * run.stride + i);
      const double z = dot * task.scale + bias_of(task.bias, row, static_cast<std::uint32_t>(k));
      const double weight = std::isfinite(z) ? z / (1 + std::exp(-z)) : NAN;
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += weight * stored_number(run.values, run.format, keys[k].at * run.stride_of_values() + i);
    }
    for (std::size_t i = 0; i < sum.size(); ++i)
      task.out[row * task.out_stride + i] = float(sum[i] * task.factor);
  }
}

}  // namespace troupe::kernels
