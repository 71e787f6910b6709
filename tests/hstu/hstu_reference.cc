#include "tests/hstu/hstu_reference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace troupe::hstu {
namespace {

using kernels::HstuConfig;
using kernels::HstuLayer;
using kernels::HstuModel;
using kernels::Matrix;
using kernels::Plan;
using kernels::Readout;

struct PlanToken {
  std::size_t segment = 0, place = 0;  // in the segment
  std::size_t event = 0;               // in the plan's segment, which counts an item and its action once
  const Matrix* table = nullptr;       // of its embedding
  std::size_t row = 0;
  std::int64_t position = 0, time = 0, query_time = 0;
  std::int64_t action = -1;  // research: its row beside the item's
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

// A contextual feature's token names a row of one of the tables behind the items.
void find_row(const HstuModel& model, kernels::Token number, PlanToken& token) {
  token.table = &model.weights.items;
  token.row = static_cast<std::size_t>(number);
  if (token.row < model.config.vocabulary) return;
  token.row -= model.config.vocabulary;
  for (const Matrix& table : model.weights.contexts) {
    token.table = &table;
    if (token.row < table.rows) return;
    token.row -= table.rows;
  }
}

std::int64_t position_of(const HstuConfig& config, std::int64_t event) {
  const std::int64_t contexts = config.contexts();
  return event < contexts || config.event_tokens() == 1 ? event : contexts + 2 * (event - contexts);
}

std::vector<PlanToken> tokens_of(const HstuModel& model, const Plan& plan) {
  const HstuConfig& config = model.config;
  const std::size_t features = config.features();
  std::vector<PlanToken> tokens;
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    const kernels::Segment& segment = plan.segments[s];
    std::size_t place = 0;
    for (std::size_t i = 0; i < segment.tokens.size(); ++i) {
      PlanToken token{.segment = s, .place = place++, .event = i};
      find_row(model, segment.tokens[i], token);
      token.position = position_of(config, segment.start + static_cast<std::int64_t>(i));
      if (config.biased()) token.time = segment.features[features * i];
      if (config.biased()) token.query_time = segment.features[features * i + 1];
      const std::int64_t action = config.actions > 0 ? segment.features[features * (i + 1) - 1] : -1;
      if (!config.nvidia()) token.action = action;
      tokens.push_back(token);
      if (!config.nvidia() || action < 0) continue;
      token.place = place++;
      token.table = &model.weights.actions;
      token.row = static_cast<std::size_t>(action);
      ++token.position;
      tokens.push_back(token);
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
  if (!config.biased()) return 0;
  return double{layer.position_weight[static_cast<std::size_t>(config.positions - 1 + key.position -
                                                               row.position)]} +
         layer.time_weight[bucket(config, row.query_time, key.time)];
}

Row part(const Row& all, std::size_t begin, std::size_t count) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

void append(Row& to, const Row& more) { to.insert(to.end(), more.begin(), more.end()); }

// Returns the weight of each pair of a row by the published softmax: over all positions, hidden later.
Row whole_softmax(const HstuConfig& config, const HstuLayer& layer, const std::vector<PlanToken>& tokens,
                  std::size_t i, const Row& dots) {
  Row logits;
  for (std::size_t j = 0; j < config.positions; ++j) {
    PlanToken key;
    key.position = static_cast<std::int64_t>(j);
    if (j == tokens.size()) key.time = tokens.back().query_time;
    logits.push_back(config.scale * ((j < tokens.size() ? dots[j] : 0.0) +
                                     bias(config, layer, tokens[i], j < tokens.size() ? tokens[j] : key)));
  }
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - logits[0]);
  Row weights;
  for (std::size_t j = 0; j < tokens.size(); ++j) weights.push_back(std::exp(logits[j] - logits[0]) / sum);
  return weights;
}

Row attend(const HstuConfig& config, const HstuLayer& layer, const std::vector<PlanToken>& tokens,
           const std::vector<std::vector<bool>>& sees, const std::vector<Row>& uvqk, std::size_t i) {
  const std::size_t width = config.width(), d = config.head_dim, v = config.numbers_of_value();
  const std::size_t queries = 2 * width, keys = queries + config.query_width();
  Row heads(width);
  for (std::size_t head = 0; head < config.heads; ++head) {
    Row dots, weights;
    for (const Row& key : uvqk) {
      double dot = 0;
      for (std::size_t k = head * d; k < (head + 1) * d; ++k) dot += uvqk[i][queries + k] * key[keys + k];
      dots.push_back(dot);
    }
    if (config.softmax) weights = whole_softmax(config, layer, tokens, i, dots);
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      if (!(config.softmax ? j <= i : sees[i][j])) continue;
      const double weight =
          config.softmax
              ? weights[j]
              : silu(config.scale * dots[j] + bias(config, layer, tokens[i], tokens[j])) / config.normaliser;
      for (std::size_t k = head * v; k < (head + 1) * v; ++k) heads[k] += weight * uvqk[j][width + k];
    }
  }
  return heads;
}

std::vector<Row> run_layer(const HstuConfig& config, const HstuLayer& layer,
                           const std::vector<PlanToken>& tokens, const std::vector<std::vector<bool>>& sees,
                           const std::vector<Row>& states) {
  const std::size_t width = config.width();
  const bool on_all = config.nvidia() || (!config.production() && config.projections_silu);
  std::vector<Row> uvqk;
  for (const Row& state : states) {
    uvqk.push_back(project(norm(state, config.epsilon, layer.input_norm, layer.input_norm_bias), layer.uvqk,
                           layer.uvqk_bias));
    for (std::size_t i = 0; i < uvqk.back().size(); ++i)
      if (on_all || (config.production() && i < width)) uvqk.back()[i] = silu(uvqk.back()[i]);
  }
  std::vector<Row> next;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Row heads = attend(config, layer, tokens, sees, uvqk, i), gate = part(uvqk[i], 0, width);
    const Row normed = norm(heads, config.epsilon, layer.output_norm, layer.output_norm_bias);
    Row gated = normed, in;
    for (std::size_t k = 0; k < width; ++k) gated[k] *= gate[k];
    if (config.production()) append(in, gate), append(in, heads);
    if (config.concat) append(in, gate), append(in, normed);
    append(in, gated);
    next.push_back(project(in, layer.output, layer.output_bias));
    for (std::size_t k = 0; config.residual && k < config.hidden; ++k) next.back()[k] += states[i][k];
  }
  return next;
}

double length(const Row& row) {
  double squares = 0;
  for (const double x : row) squares += x * x;
  return std::sqrt(squares);
}

double activated(const HstuConfig& config, double z) {
  if (config.head_activation == kernels::HstuHeadActivation::relu) return std::max(z, 0.0);
  if (config.head_activation == kernels::HstuHeadActivation::gelu)
    return z * (1 + std::erf(z / std::sqrt(2.0))) / 2;
  return silu(z);
}

double read_task(const HstuModel& model, std::uint32_t task, const Row& state) {
  const HstuConfig& config = model.config;
  if (!config.nvidia()) {
    Row inner = project(norm(state, config.epsilon), model.weights.fc1, model.weights.fc1_bias);
    for (double& x : inner) x = silu(x);
    return project(inner, model.weights.fc2, model.weights.fc2_bias)[task];
  }
  Row inner = state;
  for (double& x : inner) x /= std::max(length(state), config.head_epsilon);
  for (std::size_t i = 0; i < model.weights.head.size(); ++i) {
    inner = project(inner, model.weights.head[i], model.weights.head_bias[i]);
    for (double& x : inner)
      if (i + 1 < model.weights.head.size()) x = activated(config, x);
  }
  return inner[task];
}

Row read_items(const HstuModel& model, const std::vector<kernels::Token>& items, Row state) {
  const HstuConfig& config = model.config;
  const std::size_t columns = model.weights.items.columns;
  const double epsilon = config.output_epsilon > 0 ? config.output_epsilon : config.l2_epsilon;
  state.resize(columns);
  const double long_as = std::max(length(state), epsilon);
  if (config.output_norm == kernels::HstuOutputNorm::layer_norm)
    state = norm(state, epsilon);
  else
    for (double& x : state) x /= long_as;
  Row logits;
  for (const kernels::Token item : items) {
    Row embedding;
    double dot = 0;
    for (std::size_t i = 0; i < columns; ++i) {
      embedding.push_back(model.weights.items.values[static_cast<std::size_t>(item) * columns + i]);
      dot += state[i] * embedding[i];
    }
    if (config.item_l2) dot /= std::max(length(embedding), config.l2_epsilon);
    logits.push_back(dot / config.temperature);
  }
  return logits;
}

Row read(const HstuModel& model, const Readout& readout, const Row& state) {
  if (readout.what == Readout::What::state) return state;
  if (readout.what == Readout::What::head) return {read_task(model, readout.head, state)};
  return read_items(model, readout.rows, state);
}

Row input_of(const HstuModel& model, const PlanToken& token) {
  const HstuConfig& config = model.config;
  const double scale = config.scales_input ? std::sqrt(double{static_cast<double>(config.hidden)}) : 1;
  Row state;
  for (std::size_t i = 0; i < token.table->columns; ++i)
    state.push_back(scale * token.table->values[token.row * token.table->columns + i]);
  for (std::size_t i = 0; i < config.action_dim; ++i)
    state.push_back(
        scale * model.weights.actions.values[static_cast<std::size_t>(token.action) * config.action_dim + i]);
  if (config.positions == 0) return state;
  const auto at = std::min<std::size_t>(static_cast<std::size_t>(token.position), config.positions - 1);
  for (std::size_t i = 0; i < config.hidden; ++i)
    state[i] += model.weights.positions.values[at * config.hidden + i];
  return state;
}

}  // namespace

// Returns the mask of the production code by identities. Without context tokens and a window it is that
// of any plan.
std::vector<std::vector<bool>> visibility(const HstuModel& model, const Plan& plan) {
  const HstuConfig& config = model.config;
  const std::vector<PlanToken> tokens = tokens_of(model, plan);
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

Reference compute(const HstuModel& model, const Plan& plan) {
  const HstuConfig& config = model.config;
  const std::vector<PlanToken> tokens = tokens_of(model, plan);
  const auto sees = visibility(model, plan);
  Reference result;
  std::vector<Row> states;
  for (const PlanToken& token : tokens) states.push_back(input_of(model, token));
  result.states.push_back(states);
  for (const HstuLayer& layer : model.weights.layers)
    result.states.push_back(states = run_layer(config, layer, tokens, sees, states));
  for (const Readout& readout : plan.readouts) {
    const auto read_at = std::ranges::find_if(tokens, [&](const PlanToken& token) {
      return token.segment == readout.segment && token.event == readout.offset;
    });
    result.readouts.push_back(
        read(model, readout, states[static_cast<std::size_t>(read_at - tokens.begin())]));
  }
  return result;
}

}  // namespace troupe::hstu
