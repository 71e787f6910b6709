#include "tests/hstu/hstu_reference.h"

#include <cmath>
#include <cstdlib>

namespace troupe::hstu {
namespace {

using kernels::HstuConfig;
using kernels::HstuLayer;
using kernels::Matrix;
using kernels::Plan;
using kernels::Readout;

struct PlanToken {
  std::size_t segment, place;  // position in the segment
  kernels::Token item;
  std::int64_t position, time, query_time;
};

double silu(double z) { return z / (1 + std::exp(-z)); }

Row project(const Row& in, const Matrix& weight, const std::vector<float>& bias) {
  Row out(weight.rows);
  for (std::size_t r = 0; r < weight.rows; ++r) {
    out[r] = bias.empty() ? 0.0 : bias[r];
    for (std::size_t c = 0; c < weight.columns; ++c) out[r] += in[c] * weight.values[r * weight.columns + c];
  }
  return out;
}

Row norm(const Row& in, double epsilon, const std::vector<float>& weight = {},
         const std::vector<float>& bias = {}) {
  double mean = 0, variance = 0;
  for (const double x : in) mean += x / static_cast<double>(in.size());
  for (const double x : in) variance += (x - mean) * (x - mean) / static_cast<double>(in.size());
  Row out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    out[i] = (in[i] - mean) / std::sqrt(variance + epsilon);
    if (!weight.empty()) out[i] = out[i] * weight[i] + bias[i];
  }
  return out;
}

std::vector<PlanToken> tokens_of(const HstuConfig& config, const Plan& plan) {
  std::vector<PlanToken> tokens;
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    const kernels::Segment& segment = plan.segments[s];
    for (std::size_t i = 0; i < segment.tokens.size(); ++i) {
      tokens.push_back({s, i, segment.tokens[i], segment.start + static_cast<std::int64_t>(i), 0, 0});
      if (config.features() == 0) continue;
      tokens.back().time = segment.features[2 * i];
      tokens.back().query_time = segment.features[2 * i + 1];
    }
  }
  return tokens;
}

// Returns floor(ln(max(|d|, 1)) / divisor), in long double; a distance exactly on a boundary is decided
// by comparing with the boundary.
std::size_t bucket(const HstuConfig& config, std::int64_t from, std::int64_t to) {
  const long double seconds = std::max(std::abs(from - to), std::int64_t{1});
  std::size_t k = 0;
  while (k < config.time_buckets &&
         seconds >= std::ceil(std::exp(static_cast<long double>(config.bucket_divisor) *
                                       static_cast<long double>(k + 1))))
    ++k;
  return k;
}

double bias(const HstuConfig& config, const HstuLayer& layer, const PlanToken& row, const PlanToken& key) {
  if (config.production) return 0;
  return double{layer.position_weight[static_cast<std::size_t>(config.positions - 1 + key.position -
                                                               row.position)]} +
         layer.time_weight[bucket(config, row.query_time, key.time)];
}

Row part(const Row& all, std::size_t begin, std::size_t count) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

void append(Row& to, const Row& more) { to.insert(to.end(), more.begin(), more.end()); }

std::vector<Row> run_layer(const HstuConfig& config, const HstuLayer& layer,
                           const std::vector<PlanToken>& tokens, const std::vector<std::vector<bool>>& sees,
                           const std::vector<Row>& states) {
  const std::size_t width = config.width(), d = config.head_dim;
  std::vector<Row> uvqk;
  for (const Row& state : states) {
    uvqk.push_back(project(norm(state, config.epsilon, layer.input_norm, layer.input_norm_bias), layer.uvqk,
                           layer.uvqk_bias));
    for (std::size_t i = 0; i < (config.production ? width : 4 * width); ++i)
      uvqk.back()[i] = silu(uvqk.back()[i]);
  }
  std::vector<Row> next;
  for (std::size_t i = 0; i < states.size(); ++i) {
    Row heads(width);
    for (std::size_t j = 0; j < states.size(); ++j) {
      if (!sees[i][j]) continue;
      const double pair = bias(config, layer, tokens[i], tokens[j]);
      for (std::size_t head = 0; head < config.heads; ++head) {
        double dot = 0;
        for (std::size_t k = head * d; k < (head + 1) * d; ++k)
          dot += uvqk[i][2 * width + k] * uvqk[j][3 * width + k];
        const double weight = silu(config.scale * dot + pair) / config.normaliser;
        for (std::size_t k = head * d; k < (head + 1) * d; ++k) heads[k] += weight * uvqk[j][width + k];
      }
    }
    const Row gate = part(uvqk[i], 0, width);
    Row gated = norm(heads, config.epsilon, layer.output_norm, layer.output_norm_bias), in;
    for (std::size_t k = 0; k < width; ++k) gated[k] *= gate[k];
    if (config.production) append(in, gate), append(in, heads);
    append(in, gated);
    next.push_back(project(in, layer.output, layer.output_bias));
    for (std::size_t k = 0; k < config.hidden; ++k) next.back()[k] += states[i][k];
  }
  return next;
}

double length(const Row& row) {
  double squares = 0;
  for (const double x : row) squares += x * x;
  return std::sqrt(squares);
}

Row read(const kernels::HstuModel& model, const Readout& readout, const Row& state) {
  const HstuConfig& config = model.config;
  if (readout.what == Readout::What::state) return state;
  if (readout.what == Readout::What::head) {
    Row inner = project(norm(state, config.epsilon), model.weights.fc1, model.weights.fc1_bias);
    for (double& x : inner) x = silu(x);
    return {project(inner, model.weights.fc2, model.weights.fc2_bias)[readout.head]};
  }
  Row logits;
  for (const kernels::Token item : readout.rows) {
    Row embedding;
    for (std::size_t i = 0; i < config.hidden; ++i)
      embedding.push_back(model.weights.items.values[static_cast<std::size_t>(item) * config.hidden + i]);
    double dot = 0;
    for (std::size_t i = 0; i < config.hidden; ++i) dot += state[i] * embedding[i];
    logits.push_back(dot / std::max(length(state), config.l2_epsilon) /
                     std::max(length(embedding), config.l2_epsilon) / config.temperature);
  }
  return logits;
}

}  // namespace

// Returns the mask of the production code by identities. Without context tokens and a window it is that
// of any plan.
std::vector<std::vector<bool>> visibility(const HstuConfig& config, const Plan& plan) {
  const std::vector<PlanToken> tokens = tokens_of(config, plan);
  const std::int64_t context = config.context_tokens, window = config.window;
  const auto identity = [&](const PlanToken& token) {
    return context > 0 ? std::max<std::int64_t>(token.position - context + 1, 0) : token.position;
  };
  std::vector<std::vector<bool>> sees(tokens.size(), std::vector<bool>(tokens.size()));
  for (std::size_t t = 0; t < tokens.size(); ++t)
    for (std::size_t u = 0; u < tokens.size(); ++u) {
      const PlanToken &a = tokens[t], &b = tokens[u];
      const bool in_context = context > 0 && identity(a) == 0;
      const bool by_plan =
          a.segment == b.segment
              ? b.place <= a.place || in_context
              : plan.segments[a.segment].sees.contains(static_cast<std::uint32_t>(b.segment));
      sees[t][u] = by_plan && (t == u || in_context || window == 0 || identity(a) - identity(b) <= window);
    }
  return sees;
}

Reference compute(const kernels::HstuModel& model, const Plan& plan) {
  const HstuConfig& config = model.config;
  const std::vector<PlanToken> tokens = tokens_of(config, plan);
  const auto sees = visibility(config, plan);
  Reference result;
  std::vector<Row> states;
  for (const PlanToken& token : tokens) {
    Row state(config.hidden);
    for (std::size_t i = 0; i < config.hidden; ++i)
      state[i] = std::sqrt(double{static_cast<double>(config.hidden)}) *
                     model.weights.items.values[static_cast<std::size_t>(token.item) * config.hidden + i] +
                 model.weights.positions.values[static_cast<std::size_t>(token.position) * config.hidden + i];
    states.push_back(std::move(state));
  }
  result.states.push_back(states);
  for (const HstuLayer& layer : model.weights.layers)
    result.states.push_back(states = run_layer(config, layer, tokens, sees, states));
  for (const Readout& readout : plan.readouts) {
    std::size_t row = readout.offset;
    for (std::size_t s = 0; s < readout.segment; ++s) row += plan.segments[s].tokens.size();
    result.readouts.push_back(read(model, readout, states[row]));
  }
  return result;
}

}  // namespace troupe::hstu
