#include "tests/reference/reference.h"

#include <algorithm>
#include <cmath>

#include "tests/reference/reference_repair.h"

namespace troupe::reference {
namespace {

using kernels::DecoderConfig;
using kernels::Matrix;
using Row = std::vector<double>;

// Returns weight · in + bias; `bias` may be empty.
Row project(const Row& in, const Matrix& weight, const std::vector<float>& bias = {}) {
  Row out(weight.rows);
  for (std::size_t r = 0; r < weight.rows; ++r) {
    double sum = bias.empty() ? 0.0 : bias[r];
    for (std::size_t c = 0; c < weight.columns; ++c) sum += in[c] * weight.values[r * weight.columns + c];
    out[r] = sum;
  }
  return out;
}

// Divides `width` values from `first` on by their root mean square and multiplies them by `weight`.
void rms_norm(double* first, std::size_t width, const std::vector<float>& weight, double epsilon) {
  double squares = 0;
  for (std::size_t i = 0; i < width; ++i) squares += first[i] * first[i];
  const double factor = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
  for (std::size_t i = 0; i < width; ++i) first[i] *= factor * weight[i];
}

Row normed(Row row, const std::vector<float>& weight, double epsilon) {
  rms_norm(row.data(), row.size(), weight, epsilon);
  return row;
}

}  // namespace

void rotate(Row& row, std::size_t head_dim, const std::vector<double>& frequencies, double position) {
  for (std::size_t head = 0; head < row.size(); head += head_dim)
    for (std::size_t i = 0; i < head_dim / 2; ++i) {
      const double angle = position * frequencies[i];
      double& a = row[head + i];
      double& b = row[head + i + head_dim / 2];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = turned;
    }
}

namespace {

// Softmax attention of one query head of one token over the visible tokens, with the keys as it sees
// them. Adds the attention to each of them to `received`.
void attend(const double* query, std::size_t kv_at, std::size_t head_dim, const Rows& keys, const LayerKv& kv,
            const std::vector<bool>& seen, double* out, Row& received) {
  std::vector<double> scores(seen.size(), -INFINITY);
  double largest = -INFINITY;
  for (std::size_t u = 0; u < seen.size(); ++u) {
    if (!seen[u]) continue;
    double dot = 0;
    for (std::size_t i = 0; i < head_dim; ++i) dot += query[i] * keys[u][kv_at + i];
    scores[u] = dot / std::sqrt(static_cast<double>(head_dim));
    largest = std::max(largest, scores[u]);
  }
  double total = 0;
  for (std::size_t u = 0; u < seen.size(); ++u) {
    if (!seen[u]) continue;
    const double weight = std::exp(scores[u] - largest);
    total += weight;
    for (std::size_t i = 0; i < head_dim; ++i) out[i] += weight * kv.values[u][kv_at + i];
  }
  for (std::size_t i = 0; i < head_dim; ++i) out[i] /= total;
  for (std::size_t u = 0; u < seen.size(); ++u)
    if (seen[u]) received[u] += std::exp(scores[u] - largest) / total;
}

// Returns the queries of all tokens; writes their keys and values to `kv`.
Rows project_qkv(const DecoderConfig& config, const kernels::LayerWeights& layer, const Rows& state,
                 const std::vector<double>& positions, LayerKv& kv) {
  const std::vector<double> frequencies = kernels::rope_frequencies(config);
  Rows queries;
  for (std::size_t t = 0; t < state.size(); ++t) {
    const Row in = normed(state[t], layer.input_norm, config.rms_epsilon);
    Row q = project(in, layer.q, layer.q_bias);
    Row k = project(in, layer.k, layer.k_bias);
    for (std::size_t h = 0; config.qk_norm && h < config.heads; ++h)
      rms_norm(&q[h * config.head_dim], config.head_dim, layer.q_norm, config.rms_epsilon);
    for (std::size_t h = 0; config.qk_norm && h < config.kv_heads; ++h)
      rms_norm(&k[h * config.head_dim], config.head_dim, layer.k_norm, config.rms_epsilon);
    rotate(q, config.head_dim, frequencies, positions[t]);
    rotate(k, config.head_dim, frequencies, positions[t]);
    queries.push_back(std::move(q));
    kv.keys.push_back(std::move(k));
    kv.values.push_back(project(in, layer.v, layer.v_bias));
  }
  return queries;
}

void add(Row& to, const Row& what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
}

}  // namespace

std::vector<std::size_t> first_tokens(const kernels::Plan& plan) {
  std::vector<std::size_t> first(1, 0);
  for (const kernels::Segment& segment : plan.segments) first.push_back(first.back() + segment.tokens.size());
  return first;
}

namespace {

// Returns keys as other segments see them: rotated by their segment's shift.
Rows shown_keys(const DecoderConfig& config, const kernels::Plan& plan, const LayerKv& kv) {
  const std::vector<double> frequencies = kernels::rope_frequencies(config);
  Rows shown = kv.keys;
  std::size_t token = 0;
  for (const kernels::Segment& segment : plan.segments)
    for (std::size_t i = 0; i < segment.tokens.size(); ++i, ++token)
      rotate(shown[token], config.head_dim, frequencies, segment.shift);
  return shown;
}

// Attention of a layer. A token sees its own segment unshifted. Returns the attention that each token
// receives from tokens with number `attending` or higher.
Row add_attention(const DecoderConfig& config, const kernels::Plan& plan, const kernels::LayerWeights& layer,
                  const Rows& queries, const LayerKv& kv, const Mask& mask, Rows& state,
                  std::size_t attending) {
  Row received(state.size(), 0.0), others(state.size(), 0.0);
  const std::size_t heads_per_kv = config.heads / config.kv_heads;
  const std::vector<std::size_t> first = first_tokens(plan);
  const Rows shown = shown_keys(config, plan, kv);
  for (std::size_t t = 0, segment = 0; t < state.size(); ++t) {
    while (t >= first[segment + 1]) ++segment;
    Rows keys = shown;
    std::copy(kv.keys.begin() + static_cast<std::ptrdiff_t>(first[segment]),
              kv.keys.begin() + static_cast<std::ptrdiff_t>(first[segment + 1]),
              keys.begin() + static_cast<std::ptrdiff_t>(first[segment]));
    Row mixed(config.heads * config.head_dim, 0.0);
    for (std::size_t h = 0; h < config.heads; ++h)
      attend(&queries[t][h * config.head_dim], h / heads_per_kv * config.head_dim, config.head_dim, keys, kv,
             mask[t], &mixed[h * config.head_dim], t < attending ? others : received);
    add(state[t], project(mixed, layer.o, layer.o_bias));
  }
  return received;
}

void add_feed_forward(const DecoderConfig& config, const kernels::LayerWeights& layer, Rows& state) {
  for (Row& row : state) {
    const Row in = normed(row, layer.post_attention_norm, config.rms_epsilon);
    Row gate = project(in, layer.gate);
    const Row up = project(in, layer.up);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    add(row, project(gate, layer.down));
  }
}

Rows embedded(const kernels::DecoderModel& model, const kernels::Plan& plan) {
  const Matrix& table = model.weights.embedding;
  Rows state;
  for (const kernels::Segment& segment : plan.segments)
    for (const kernels::Token token : segment.tokens) {
      const auto first = table.values.begin() + static_cast<std::ptrdiff_t>(token) * table.columns;
      state.emplace_back(first, first + table.columns);
    }
  return state;
}

std::vector<double> positions_of(const kernels::Plan& plan) {
  std::vector<double> positions;
  for (const kernels::Segment& segment : plan.segments)
    for (std::size_t i = 0; i < segment.tokens.size(); ++i)
      positions.push_back(segment.start + static_cast<double>(i));
  return positions;
}

std::vector<double> read(const kernels::DecoderModel& model, const Row& state,
                         const kernels::Readout& readout) {
  const Row last = normed(state, model.weights.final_norm, model.config.rms_epsilon);
  const Matrix& output = model.config.tied_embeddings ? model.weights.embedding : model.weights.output;
  std::vector<double> logits;
  for (const kernels::Token row : readout.rows) {
    double sum = 0;
    for (std::size_t i = 0; i < output.columns; ++i)
      sum += last[i] * output.values[static_cast<std::size_t>(row) * output.columns + i];
    logits.push_back(sum);
  }
  return logits;
}

}  // namespace

Mask visibility(const kernels::Plan& plan) {
  const std::vector<std::size_t> first = first_tokens(plan);
  Mask mask(first.back(), std::vector<bool>(first.back(), false));
  for (std::size_t s = 0; s < plan.segments.size(); ++s)
    for (std::size_t t = first[s]; t < first[s + 1]; ++t) {
      for (const std::uint32_t seen : plan.segments[s].sees)
        for (std::size_t u = first[seen]; u < first[seen + 1]; ++u) mask[t][u] = true;
      for (const std::uint32_t seen : plan.segments[s].sees) {
        const kernels::ReplacedTokens& out = plan.segments[seen].replaces;
        if (out.segment == kernels::ReplacedTokens::none) continue;
        for (std::size_t i = 0; i < plan.segments[seen].tokens.size(); ++i)
          mask[t][first[out.segment] + out.offset + i] = false;
      }
      for (std::size_t u = first[s]; u <= t; ++u) mask[t][u] = true;
    }
  return mask;
}

Result compute(const kernels::DecoderModel& model, const kernels::Plan& plan) {
  const Mask mask = visibility(plan);
  const std::vector<double> positions = positions_of(plan);
  const std::vector<std::size_t> first = first_tokens(plan);
  Rows state = embedded(model, plan);
  Result result;
  RepairSelection repairing(model.config, plan);
  for (std::size_t l = 0; l < model.weights.layers.size(); ++l) {
    const kernels::LayerWeights& layer = model.weights.layers[l];
    LayerKv kv;
    const Rows queries = project_qkv(model.config, layer, state, positions, kv);
    repairing.substitute(l, kv);
    const Row received =
        add_attention(model.config, plan, layer, queries, kv, mask, state, first[plan.repair.attending]);
    if (l == 0) repairing.note_attention(received);
    add_feed_forward(model.config, layer, state);
    result.layers.push_back(std::move(kv));
  }
  result.chosen = repairing.chosen();
  result.gap = repairing.gap();
  result.scores = repairing.scores();
  for (const kernels::Readout& readout : plan.readouts)
    result.readouts.push_back(read(model, state[first[readout.segment] + readout.offset], readout));
  return result;
}

}  // namespace troupe::reference
