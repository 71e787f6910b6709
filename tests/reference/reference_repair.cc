#include "tests/reference/reference_repair.h"

#include <algorithm>

namespace troupe::reference {

using Row = std::vector<double>;

RepairSelection::RepairSelection(const kernels::DecoderConfig& config, const kernels::Plan& plan)
    : config_(config), repair_(plan.repair), frequencies_(kernels::rope_frequencies(config)) {
  const std::vector<std::size_t> first = first_tokens(plan);
  for (const kernels::Repair::ReusedSpan& place : repair_.reused_spans) {
    const kernels::Segment &own = plan.segments[place.segment], &block = plan.segments[place.block];
    for (std::size_t i = 0; i < own.tokens.size(); ++i)
      tokens_.push_back({first[place.segment] + i, first[place.block] + i, own.start + double(i),
                         double(own.start - block.start), place.budget, i});
  }
}

void RepairSelection::note_attention(const Row& received) {
  for (Token& token : tokens_) token.attention = received[token.own];
}

Row RepairSelection::difference(const Token& token, const LayerKv& kv) const {
  Row own = kv.keys[token.own], block = kv.keys[token.block];
  rotate(block, config_.head_dim, frequencies_, token.shift);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] -= block[i];
  rotate(own, config_.head_dim, frequencies_, -token.position);
  for (std::size_t i = 0; i < kv.values[token.own].size(); ++i)
    own.push_back(kv.values[token.own][i] - kv.values[token.block][i]);
  return own;
}

void RepairSelection::choose() {
  for (const std::uint32_t always : repair_.always) tokens_[always].chosen = true;
  for (std::uint32_t budget = 0; budget < repair_.budgets.size(); ++budget) choose(budget);
  done_ = true;
}

void RepairSelection::choose(std::uint32_t budget) {
  double attention = 0, divergence = 0, count = 0;
  for (const Token& token : tokens_) {
    if (token.budget != budget) continue;
    attention += token.attention;
    divergence += token.divergence;
    ++count;
  }
  // Blocks that saw the same context as the spans that reuse them differ only by rounding, which no other
  // program reproduces.
  const kernels::Repair::Weights factors =
      repair_.factors.empty() ? kernels::Repair::Weights{} : repair_.factors.at(budget);
  const double attention_weight = double(repair_.attention) * factors.attention,
               divergence_weight = double(repair_.divergence) * factors.divergence;
  if (divergence_weight > 0 && repair_.budgets[budget] > 0 && divergence < 1e-3 * count) gap_ = 0;
  const auto part = [&](double weight, double measured, double sum) {
    return weight > 0 && sum > 0 ? weight * measured * count / sum : 0.0;
  };
  std::vector<std::pair<double, std::size_t>> others;
  for (std::size_t t = 0; t < tokens_.size(); ++t)
    if (tokens_[t].budget == budget && !tokens_[t].chosen)
      others.emplace_back(-part(attention_weight, tokens_[t].attention, attention) -
                              part(divergence_weight, tokens_[t].divergence, divergence),
                          t);
  for (const auto& [less, t] : others) tokens_[t].score = -less;
  std::ranges::sort(others);
  const std::size_t many = std::min<std::size_t>(repair_.budgets[budget], others.size());
  for (std::size_t i = 0; i < many; ++i) tokens_[others[i].second].chosen = true;
  if (many > 0 && many < others.size()) gap_ = std::min(gap_, others[many].first - others[many - 1].first);
}

void RepairSelection::substitute(std::size_t layer, LayerKv& kv) {
  if (layer == 1 || (layer > 1 && !done_)) {
    for (Token& token : tokens_) {
      const Row off = difference(token, kv);
      double squares = 0;
      for (const double x : off) squares += x * x;
      token.divergence = std::sqrt(squares);
    }
    choose();
  }
  if (layer < repair_.exact_layers) return;
  const LayerKv own = kv;
  for (const Token& token : tokens_) {
    if (token.chosen) continue;
    Row mean(kv.keys[token.own].size() + kv.values[token.own].size(), 0.0);
    double count = 0;
    const auto is_like = [&](const Token& other) { return other.chosen && other.budget == token.budget; };
    const bool here = std::ranges::any_of(
        tokens_, [&](const Token& other) { return is_like(other) && other.offset == token.offset; });
    for (const Token& other : tokens_) {
      if (!repair_.mean || !is_like(other) || (here && other.offset != token.offset)) continue;
      const Row off = difference(other, own);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += off[i];
      ++count;
    }
    for (double& x : mean) x /= std::max(1.0, count);
    Row key(mean.begin(), mean.begin() + std::ptrdiff_t(kv.keys[token.own].size()));
    rotate(key, config_.head_dim, frequencies_, token.position);
    Row block = kv.keys[token.block];
    rotate(block, config_.head_dim, frequencies_, token.shift);
    for (std::size_t i = 0; i < key.size(); ++i) kv.keys[token.own][i] = block[i] + key[i];
    for (std::size_t i = 0; i < kv.values[token.own].size(); ++i)
      kv.values[token.own][i] = kv.values[token.block][i] + mean[key.size() + i];
  }
}

std::vector<std::uint32_t> RepairSelection::chosen() const {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t t = 0; t < tokens_.size(); ++t)
    if (tokens_[t].chosen) numbers.push_back(t);
  return numbers;
}

std::vector<TokenScore> RepairSelection::scores() const {
  std::vector<TokenScore> scores;
  for (const Token& token : tokens_) scores.push_back({token.budget, token.score});
  return scores;
}

double shortfall(const Result& expected, std::span<const std::uint32_t> chosen) {
  std::vector<bool> is_chosen(expected.scores.size());
  for (const std::uint32_t t : chosen) is_chosen.at(t) = true;
  double most = 0;
  for (std::size_t in = 0; in < expected.scores.size(); ++in)
    for (std::size_t out = 0; out < expected.scores.size(); ++out)
      if (is_chosen[in] && !is_chosen[out] && expected.scores[in].budget == expected.scores[out].budget)
        most = std::max(most, expected.scores[out].score - expected.scores[in].score);
  return most;
}

}  // namespace troupe::reference
