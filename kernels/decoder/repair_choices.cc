// Decides for any backend which tokens of a repaired plan are chosen, after which layer, and which
// rows then end. So all backends compute the same approximate answer.
#include "kernels/decoder/repair_choices.h"

#include <algorithm>

namespace troupe::kernels {

void RepairChoices::start(const DecoderBatch& batch) {
  batch_ = &batch;
  repair_of_.clear();
  first_token_.clear();
  if (states_.size() < batch.repairs.size()) states_.resize(batch.repairs.size());
  for (std::uint32_t r = 0; r < batch.repairs.size(); ++r) {
    const BatchRepair& of = batch.repairs[r];
    State& state = states_[r];
    state.first_span = of.reused_begin;
    state.end_span = of.reused_end;
    state.chosen = state.ended = false;
    state.longest = 0;
    state.tokens.budget.clear();
    for (std::uint32_t p = of.reused_begin; p < of.reused_end; ++p) {
      const RepairedSpan& reused = batch.reused_spans[p];
      repair_of_.push_back(r);
      first_token_.push_back(static_cast<std::uint32_t>(state.tokens.budget.size()));
      state.longest = std::max(state.longest, reused.tokens);
      state.tokens.budget.insert(state.tokens.budget.end(), reused.tokens, reused.budget);
    }
    state.tokens.attention.assign(state.tokens.budget.size(), 0);
    state.tokens.divergence.assign(state.tokens.budget.size(), 0);
  }
}

void RepairChoices::free_memory() {
  states_ = {};
  repair_of_ = first_token_ = order_ = {};
}

bool RepairChoices::needs_attention() const {
  return std::ranges::any_of(batch_->repairs, [](const BatchRepair& of) { return of.repair->attention > 0; });
}

bool RepairChoices::needs_divergence() const {
  return std::ranges::any_of(batch_->repairs,
                             [](const BatchRepair& of) { return of.repair->divergence > 0; });
}

std::span<float> RepairChoices::divergence(std::uint32_t reused) {
  return std::span(state_of(reused).tokens.divergence)
      .subspan(first_token_[reused], batch_->reused_spans[reused].tokens);
}

std::span<const std::uint8_t> RepairChoices::chosen(std::uint32_t reused) const {
  return std::span(states_[repair_of_[reused]].tokens.chosen)
      .subspan(first_token_[reused], batch_->reused_spans[reused].tokens);
}

void RepairChoices::choose_after_keys(std::uint32_t layer, std::vector<std::uint32_t>& ended) {
  for (std::size_t r = 0; r < batch_->repairs.size(); ++r) {
    State& state = states_[r];
    const Repair& repair = *batch_->repairs[r].repair;
    const bool scored = repair.attention > 0 || repair.divergence > 0;
    const bool known = !scored || (repair.divergence > 0 ? layer >= 1 : state.chosen);
    if (known && !state.chosen) choose(r);
    if (state.chosen && !state.ended && layer + 1 >= repair.exact_layers) end_rows(state, ended);
  }
}

void RepairChoices::choose_after_attention(std::span<const float> mass, std::vector<std::uint32_t>& ended) {
  for (std::size_t r = 0; r < batch_->repairs.size(); ++r) {
    State& state = states_[r];
    const Repair& repair = *batch_->repairs[r].repair;
    if (repair.attention == 0) continue;
    for (std::uint32_t p = state.first_span; p < state.end_span; ++p)
      std::copy_n(&mass[batch_->reused_spans[p].row], batch_->reused_spans[p].tokens,
                  &state.tokens.attention[first_token_[p]]);
    if (repair.divergence > 0) continue;
    choose(r);
    if (repair.exact_layers == 1) end_rows(state, ended);
  }
}

void RepairChoices::choose(std::size_t repair) {
  choose_tokens(*batch_->repairs[repair].repair, states_[repair].tokens, order_);
  states_[repair].chosen = true;
}

void RepairChoices::end_rows(State& state, std::vector<std::uint32_t>& ended) {
  for (std::uint32_t p = state.first_span; p < state.end_span; ++p)
    for (std::uint32_t t = 0; t < batch_->reused_spans[p].tokens; ++t)
      if (state.tokens.chosen[first_token_[p] + t] == 0) ended.push_back(batch_->reused_spans[p].row + t);
  state.ended = true;
}

bool RepairChoices::fills(std::uint32_t layer) const {
  return std::ranges::any_of(batch_->repairs,
                             [&](const BatchRepair& of) { return layer >= of.repair->exact_layers; });
}

void RepairChoices::list_chosen(std::size_t repair, std::vector<std::uint32_t>& out) const {
  const State& state = states_[repair];
  for (std::uint32_t t = 0; state.chosen && t < state.tokens.chosen.size(); ++t)
    if (state.tokens.chosen[t] != 0) out.push_back(t);
}

void remaining_rows(const DecoderBatch& batch, const RowSet* set, std::span<const std::uint32_t> ended,
                    RowSet& next) {
  const std::size_t rows = set != nullptr ? set->rows.size() : batch.rows();
  next.rows.clear();
  for (std::uint32_t i = 0; i < rows; ++i) {
    const std::uint32_t row = set != nullptr ? set->rows[i] : i;
    if (!std::ranges::binary_search(ended, row)) next.rows.push_back(row);
  }
  assign_groups(batch, next);
}

}  // namespace troupe::kernels
