// Computes Climber in float64, row by row, in the plainest way. The executors and the golden files
// are compared with it.
#include "kernels/climber/climber_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace troupe::kernels {
namespace {

using Row = ClimberVector;

Row affine_of(const Affine& affine, const Row& in) {
  Row out(affine.bias.begin(), affine.bias.end());
  for (std::size_t i = 0; i < out.size(); ++i)
    for (std::size_t j = 0; j < in.size(); ++j) out[i] += affine.weight.values[i * in.size() + j] * in[j];
  return out;
}

Row layer_normed(const NormWeights& weights, const Row& in, double epsilon) {
  const double mean = std::accumulate(in.begin(), in.end(), 0.0) / double(in.size());
  double variance = 0;
  for (const double x : in) variance += (x - mean) * (x - mean) / double(in.size());
  Row out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i)
    out[i] = (in[i] - mean) / std::sqrt(variance + epsilon) * weights.weight[i] + weights.bias[i];
  return out;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
Row silu_of(Row row) {
  for (double& x : row) x *= sigmoid(x);
  return row;
}

void softmax(Row& scores) {
  const double most = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& s : scores) total += s = std::exp(s - most);
  for (double& s : scores) s /= total;
}

struct Sequence {
  std::vector<Row> rows;
  std::size_t history = 0;
};

Sequence embed(const ClimberModel& model, const ClimberRequest& request, std::size_t tower) {
  const std::size_t d = model.config.hidden;
  Sequence sequence;
  const auto add = [&](Token item, std::int64_t action, std::size_t position) {
    Row& row = sequence.rows.emplace_back(d);
    for (std::size_t i = 0; i < d; ++i)
      row[i] = double(model.weights.items.values[std::size_t(item) * d + i]) +
               model.weights.actions.values[std::size_t(action) * d + i] +
               model.weights.towers[tower].positions.values[position * d + i];
  };
  std::vector<std::size_t> events;
  for (std::size_t i = 0; i < request.items.size(); ++i)
    if (model.config.towers[tower].strategy == ClimberStrategy::recent ||
        request.actions[i] >= liked_action_min)
      events.push_back(i);
  const std::size_t most = model.config.towers[tower].positions;
  if (events.size() > most) events.erase(events.begin(), events.end() - std::ptrdiff_t(most));
  for (const std::size_t i : events) add(request.items[i], request.actions[i], sequence.history++);
  for (const Token candidate : request.candidates) add(candidate, 0, sequence.history);
  return sequence;
}

// Returns one row's mixed values of all heads.
Row attend_row(const std::vector<Row>& qkv, std::size_t row, std::size_t history, const ClimberConfig& c,
               const double* temperatures) {
  const std::size_t d = c.hidden, dh = c.head_dim();
  std::vector<std::size_t> visible(row < history ? row + 1 : history);
  std::iota(visible.begin(), visible.end(), 0);
  if (row >= history) visible.push_back(row);
  Row mixed(d);
  for (std::size_t h = 0; h < c.heads; ++h) {
    Row scores;
    for (const std::size_t j : visible) {
      double dot = 0;
      for (std::size_t i = h * dh; i < (h + 1) * dh; ++i) dot += qkv[row][i] * qkv[j][d + i];
      scores.push_back(dot / temperatures[h]);
    }
    softmax(scores);
    for (std::size_t j = 0; j < visible.size(); ++j)
      for (std::size_t i = h * dh; i < (h + 1) * dh; ++i) mixed[i] += scores[j] * qkv[visible[j]][2 * d + i];
  }
  return mixed;
}

void add_to(Row& row, const Row& more) {
  for (std::size_t i = 0; i < row.size(); ++i) row[i] += more[i];
}

void run_layer(const ClimberModel& model, const ClimberLayerWeights& layer, const double* temperatures,
               Sequence& sequence) {
  const double epsilon = model.config.norm_epsilon;
  std::vector<Row> qkv;
  for (const Row& row : sequence.rows)
    qkv.push_back(affine_of(layer.qkv, layer_normed(layer.attention_norm, row, epsilon)));
  for (std::size_t r = 0; r < sequence.rows.size(); ++r) {
    Row& row = sequence.rows[r];
    add_to(row, affine_of(layer.output, attend_row(qkv, r, sequence.history, model.config, temperatures)));
    add_to(row,
           affine_of(layer.fc2, silu_of(affine_of(layer.fc1, layer_normed(layer.ffn_norm, row, epsilon)))));
  }
}

double score(const ClimberWeights& weights, const ClimberTaskWeights& task, const Row& fused) {
  Row shares = affine_of(task.gate, fused);
  softmax(shares);
  Row mixed;
  for (std::size_t x = 0; x < shares.size(); ++x) {
    const Row opinion = silu_of(affine_of(weights.experts[x], fused));
    mixed.resize(opinion.size());
    for (std::size_t i = 0; i < opinion.size(); ++i) mixed[i] += shares[x] * opinion[i];
  }
  return affine_of(task.fc2, silu_of(affine_of(task.fc1, mixed)))[0];
}

}  // namespace

ClimberAnswer compute_climber(const ClimberModel& model, const ClimberRequest& request) {
  const ClimberConfig& c = model.config;
  const std::vector<double> temperatures = climber_temperatures(c, model.weights);
  ClimberAnswer answer;
  for (std::size_t k = 0; k < c.towers.size(); ++k) {
    const ClimberTowerWeights& tower = model.weights.towers[k];
    Sequence sequence = embed(model, request, k);
    answer.lengths.push_back(sequence.history);
    answer.rows.push_back({sequence.rows});
    for (std::size_t l = 0; l < c.layers; ++l) {
      const std::size_t table = (k * c.scenarios + std::size_t(request.scenario)) * c.layers + l;
      run_layer(model, tower.layers[l], &temperatures[table * c.heads], sequence);
      answer.rows[k].push_back(sequence.rows);
    }
    answer.ends.emplace_back();
    for (std::size_t r = sequence.history; r < sequence.rows.size(); ++r)
      answer.ends[k].push_back(layer_normed(tower.final_norm, sequence.rows[r], c.norm_epsilon));
  }
  answer.logits.assign(c.tasks.size(), {});
  for (std::size_t i = 0; i < request.candidates.size(); ++i) {
    Row ends;
    for (const auto& tower : answer.ends) ends.insert(ends.end(), tower[i].begin(), tower[i].end());
    Row gate = affine_of(model.weights.fusion_gate, ends);
    for (double& g : gate) g = sigmoid(g);
    for (std::size_t j = 0; j < ends.size(); ++j) ends[j] *= gate[j];
    answer.gates.push_back(std::move(gate));
    for (std::size_t t = 0; t < c.tasks.size(); ++t)
      answer.logits[t].push_back(score(model.weights, model.weights.tasks[t], ends));
    answer.fused.push_back(std::move(ends));
  }
  return answer;
}

}  // namespace troupe::kernels
