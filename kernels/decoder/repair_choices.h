#pragma once
// What a pass of any backend decides about plans with a repair (base/repair.h): which tokens are chosen,
// when, and which rows end then. What is measured it is given. The layer loop asks at two moments: once a
// layer's keys and values are made, and after the first layer's attention.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/decoder/choose_tokens.h"
#include "kernels/decoder/decoder_batch.h"

namespace troupe::kernels {

class RepairChoices {
 public:
  // Of the batch, which outlives the pass.
  void start(const DecoderBatch& batch);
  void give_back();  // all memory
  bool any() const { return batch_ != nullptr && !batch_->repairs.empty(); }
  bool weighs() const;    // attention of the first layer
  bool compares() const;  // keys and values of the second

  std::uint32_t places() const { return static_cast<std::uint32_t>(batch_->places.size()); }
  const Repair& repair_of(std::uint32_t place) const { return *batch_->repairs[repair_of_[place]].repair; }
  std::uint32_t repair_number(std::uint32_t place) const { return repair_of_[place]; }
  // To be filled in before tokens are chosen: how far each of a place's tokens is from its block's.
  std::span<float> divergence(std::uint32_t place);
  // Of a place's tokens, once they are chosen.
  std::span<const std::uint8_t> chosen(std::uint32_t place) const;
  std::uint32_t longest(std::uint32_t repair) const { return states_[repair].longest; }  // tokens of a place

  // Chooses where all is known by then, and adds the rows that end to `ended`, ascending within each repair.
  void choose_after_keys(std::uint32_t layer, std::vector<std::uint32_t>& ended);
  // `mass`: the attention that each row of the batch receives.
  void choose_after_attention(std::span<const float> mass, std::vector<std::uint32_t>& ended);
  // Whether tokens of a repair have their blocks' keys and values in that layer.
  bool fills(std::uint32_t layer) const;
  // What was chosen, for the reply to `repair`.
  void list_chosen(std::size_t repair, std::vector<std::uint32_t>& out) const;

 private:
  struct State {
    std::uint32_t first_place = 0, end_place = 0;
    std::uint32_t longest = 0;
    bool chosen = false, ended = false;
    RepairTokens tokens;
  };

  State& state_of(std::uint32_t place) { return states_[repair_of_[place]]; }
  void choose(std::size_t repair);
  void end_rows(State& state, std::vector<std::uint32_t>& ended);

  const DecoderBatch* batch_ = nullptr;
  std::vector<State> states_;                           // of the repairs; more from earlier passes
  std::vector<std::uint32_t> repair_of_, first_token_;  // of each place
  std::vector<std::uint32_t> order_;
};

// The rows of `set` (null: of the whole batch) that are not among `ended`, which is ascending.
void rows_that_go_on(const DecoderBatch& batch, const RowSet* set, std::span<const std::uint32_t> ended,
                     RowSet& next);

}  // namespace troupe::kernels
