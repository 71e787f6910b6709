// The definition of `attend` that its tuned versions are tested against: softmax over every visible
// key, in double, one row and head at a time. On request it sums each key's weights over rows and
// heads, by which a repair (base/repair.h) chooses tokens.
#include <algorithm>
#include <cmath>

#include "kernels/base/float_formats.h"
#include "kernels/operations/attend.h"

namespace troupe::kernels {
namespace {

struct Token {
  const KvRun* run;
  std::size_t at;  // index of its first number in the run's keys and values
};

double number(const void* numbers, KvFormat format, std::size_t i) {
  if (format == KvFormat::f16) return from_f16(static_cast<const std::uint16_t*>(numbers)[i]);
  if (format == KvFormat::bf16) return from_bf16(static_cast<const std::uint16_t*>(numbers)[i]);
  return static_cast<const float*>(numbers)[i];
}

void append(std::span<const KvRun> runs, std::vector<Token>& tokens) {
  for (const KvRun& run : runs)
    for (std::size_t t = 0; t < run.tokens; ++t) tokens.push_back({&run, t * run.stride});
}

// Returns number i of the token's key, rotated if its run is.
double key_number(const Token& token, std::uint32_t i, std::uint32_t head_dim) {
  const KvRun& run = *token.run;
  const auto stored = [&](std::uint32_t n) { return number(run.keys, run.format, token.at + n); };
  if (run.cosines == nullptr) return stored(i);
  const std::uint32_t half = head_dim / 2, pair = i % half;
  const double first = stored(pair), second = stored(half + pair);
  return i < half ? first * run.cosines[pair] - second * run.sines[pair]
                  : second * run.cosines[pair] + first * run.sines[pair];
}

// Sets out to the sum of softmax(scale * query . key) * value over `visible`, or to zeros if
// nothing is visible. A score that is not finite makes the weight NaN: minus infinity is an
// overflow too, not an unimportant key. `weights` receives the weights, which add up to one.
void attend_one(const float* query, std::span<const Token> visible, const AttendTask& task, float* out,
                std::vector<double>& weights) {
  weights.clear();
  double largest = -INFINITY;
  for (const Token& token : visible) {
    double score = 0;
    for (std::uint32_t i = 0; i < task.head_dim; ++i)
      score += double(query[i]) * key_number(token, i, task.head_dim);
    weights.push_back(std::isfinite(score) ? score * task.scale : NAN);
    largest = std::max(largest, weights.back());
  }
  std::vector<double> sum(task.head_dim, 0.0);
  double total = 0;
  for (std::size_t k = 0; k < visible.size(); ++k) {
    const double weight = weights[k] = std::exp(weights[k] - largest);
    total += weight;
    const Token& token = visible[k];
    for (std::uint32_t i = 0; i < task.head_dim; ++i)
      sum[i] += weight * number(token.run->values, token.run->format, token.at + i);
  }
  for (std::uint32_t i = 0; i < task.head_dim; ++i) out[i] = visible.empty() ? 0.0f : float(sum[i] / total);
  for (double& weight : weights) weight /= total;
}

}  // namespace

void attend_reference(const AttendTask& task, AttendScratch&) {
  std::vector<Token> context, tail;
  append(task.context, context);
  append(task.tail, tail);
  std::vector<double> weights, mass(context.size() + tail.size());
  for (std::uint32_t row = 0; row < task.rows; ++row) {
    std::vector<Token> visible = context;
    std::vector<std::size_t> place;  // indices of the visible tokens of the tail
    for (std::uint32_t t = task.tail_begin[row]; t < task.tail_end[row]; ++t) {
      if (task.mask != nullptr && task.mask[row * task.mask_stride + t] == 0) continue;
      visible.push_back(tail[t]);
      place.push_back(context.size() + t);
    }
    for (std::uint32_t head = 0; head < task.heads; ++head) {
      const std::size_t at = std::size_t{head} * task.head_dim;
      attend_one(task.queries + row * task.query_stride + at, visible, task,
                 task.out + row * task.out_stride + at, weights);
      if (task.mass == nullptr || row < task.mass_from) continue;
      for (std::size_t k = 0; k < weights.size(); ++k)
        mass[k < context.size() ? k : place[k - context.size()]] += weights[k];
    }
  }
  for (std::size_t k = 0; task.mass != nullptr && k < mass.size(); ++k) task.mass[k] += float(mass[k]);
}

}  // namespace troupe::kernels
