// Computes SASRec event by event in float64.
#include "tests/sasrec/sasrec_reference.h"

#include <algorithm>
#include <cmath>

namespace troupe::sasrec {
namespace {

using kernels::Matrix;
using kernels::SasrecConfig;
using Vector = std::vector<double>;

Vector normed(const Vector& x, double epsilon) {
  double mean = 0, variance = 0;
  for (const double value : x) mean += value / static_cast<double>(x.size());
  for (const double value : x) variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
  Vector out;
  for (const double value : x) out.push_back((value - mean) / std::sqrt(variance + epsilon));
  return out;
}

// Rows [begin, begin + count) of a matrix times x, and their bias.
Vector affine(const Matrix& weight, const std::vector<float>& bias, const Vector& x, std::size_t begin,
              std::size_t count) {
  Vector out;
  for (std::size_t r = begin; r < begin + count; ++r) {
    double sum = double{bias[r]};
    for (std::size_t c = 0; c < weight.columns; ++c)
      sum += double{weight.values[r * weight.columns + c]} * x[c];
    out.push_back(sum);
  }
  return out;
}

double activated(const SasrecConfig& config, double z) {
  if (config.activation == kernels::SasrecActivation::relu) return std::max(z, 0.0);
  return z / 2 * (1 + std::erf(z / std::sqrt(2.0)));
}

// Softmax attention of one query over the keys and values of events 0 … last, head by head.
Vector attended(const SasrecConfig& c, const Vector& query, const std::vector<Vector>& keys,
                const std::vector<Vector>& values) {
  Vector out(c.hidden, 0.0);
  for (std::uint32_t head = 0; head < c.heads; ++head) {
    const std::size_t first = std::size_t{head} * c.head_dim();
    Vector weights;
    for (const Vector& key : keys) {
      double dot = 0;
      for (std::size_t i = first; i < first + c.head_dim(); ++i) dot += query[i] * key[i];
      weights.push_back(dot / std::sqrt(static_cast<double>(c.head_dim())));
    }
    const double most = *std::ranges::max_element(weights);
    double total = 0;
    for (double& weight : weights) total += weight = std::exp(weight - most);
    for (std::size_t j = 0; j < values.size(); ++j)
      for (std::size_t i = first; i < first + c.head_dim(); ++i) out[i] += weights[j] / total * values[j][i];
  }
  return out;
}

Vector plus(Vector a, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

}  // namespace

std::vector<Vector> reference_states(const kernels::SasrecModel& model,
                                     const std::vector<kernels::Token>& history) {
  const SasrecConfig& c = model.config;
  std::vector<Vector> states;
  for (std::size_t i = 0; i < history.size(); ++i) {
    Vector x;
    for (std::size_t k = 0; k < c.hidden; ++k)
      x.push_back(
          std::sqrt(static_cast<double>(c.hidden)) *
              double{model.weights.items.values[static_cast<std::size_t>(history[i]) * c.hidden + k]} +
          double{model.weights.positions.values[i * c.hidden + k]});
    states.push_back(std::move(x));
  }
  for (const kernels::SasrecLayer& layer : model.weights.layers) {
    std::vector<Vector> keys, values;
    for (Vector& x : states) {
      keys.push_back(affine(layer.qkv, layer.qkv_bias, x, c.hidden, c.hidden));
      values.push_back(affine(layer.qkv, layer.qkv_bias, x, 2 * std::size_t{c.hidden}, c.hidden));
      const Vector q = normed(x, c.epsilon);
      const Vector heads = attended(c, affine(layer.qkv, layer.qkv_bias, q, 0, c.hidden), keys, values);
      const Vector y =
          normed(plus(q, affine(layer.output, layer.output_bias, heads, 0, c.hidden)), c.epsilon);
      Vector inner = affine(layer.fc1, layer.fc1_bias, y, 0, c.intermediate);
      for (double& z : inner) z = activated(c, z);
      x = plus(affine(layer.fc2, layer.fc2_bias, inner, 0, c.hidden), y);
    }
  }
  return states;
}

std::vector<double> reference_similarities(const kernels::SasrecModel& model, const Vector& state) {
  const SasrecConfig& c = model.config;
  const auto length = [](const auto* values, std::size_t count) {
    double squares = 0;
    for (std::size_t i = 0; i < count; ++i) squares += double{values[i]} * double{values[i]};
    return std::sqrt(squares);
  };
  Vector user = state;
  if (c.output_norm == kernels::SasrecOutputNorm::layer_norm)
    user = normed(user, c.output_epsilon);
  else
    for (double& value : user) value /= std::max(length(state.data(), state.size()), c.output_epsilon);
  std::vector<double> similarities;
  for (std::size_t item = 0; item < c.vocabulary; ++item) {
    const float* const row = &model.weights.items.values[item * c.hidden];
    double dot = 0;
    for (std::size_t i = 0; i < c.hidden; ++i) dot += user[i] * double{row[i]};
    similarities.push_back(c.item_l2 ? dot / std::max(length(row, c.hidden), c.l2_epsilon) : dot);
  }
  return similarities;
}

}  // namespace troupe::sasrec
