#pragma once
// Decisions that a pass of any backend makes for plans with a repair (base/repair.h): which tokens
// are chosen, when, and which rows end then. The backend measures; the layer loop calls this class
// once a layer's keys and values are made, and after the first layer's attention.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/decoder/choose_tokens.h"
#include "kernels/decoder/decoder_batch.h"

namespace troupe::kernels {

class RepairChoices {
 public:
  // Starts a pass over `batch`, which must outlive the pass.
  void start(const DecoderBatch& batch);
  void free_memory();  // frees all memory
  bool any() const { return batch_ != nullptr && !batch_->repairs.empty(); }
  bool needs_attention() const;  // true if the attention of the first layer must be measured
  bool needs_divergence()
      const;  // true if keys and values of the second layer must be compared with the blocks'

  std::uint32_t reused_spans() const { return static_cast<std::uint32_t>(batch_->reused_spans.size()); }
  const Repair& repair_of(std::uint32_t reused) const { return *batch_->repairs[repair_of_[reused]].repair; }
  std::uint32_t repair_number(std::uint32_t reused) const { return repair_of_[reused]; }
  // Divergence of each of a span's tokens from its block's; the backend fills it before tokens are
  // chosen.
  std::span<float> divergence(std::uint32_t reused);
  // Flag per token of a span; valid once tokens are chosen.
  std::span<const std::uint8_t> chosen(std::uint32_t reused) const;
  // maximum tokens of a span
  std::uint32_t longest(std::uint32_t repair) const { return states_[repair].longest; }

  // Chooses tokens for the repairs whose measures are complete, and adds the rows that end to
  // `ended`, ascending within each repair.
  void choose_after_keys(std::uint32_t layer, std::vector<std::uint32_t>& ended);
  // `mass`: attention that each row of the batch receives.
  void choose_after_attention(std::span<const float> mass, std::vector<std::uint32_t>& ended);
  // Returns true if tokens of a repair take their blocks' keys and values in that layer.
  bool fills(std::uint32_t layer) const;
  // Appends the tokens that repair number `repair` chose, for its reply.
  void list_chosen(std::size_t repair, std::vector<std::uint32_t>& out) const;

 private:
  struct State {
    std::uint32_t first_span = 0, end_span = 0;
    std::uint32_t longest = 0;
    bool chosen = false, ended = false;
    RepairTokens tokens;
  };

  State& state_of(std::uint32_t reused) { return states_[repair_of_[reused]]; }
  void choose(std::size_t repair);
  void end_rows(State& state, std::vector<std::uint32_t>& ended);

  const DecoderBatch* batch_ = nullptr;
  std::vector<State> states_;                           // of the repairs; more from earlier passes
  std::vector<std::uint32_t> repair_of_, first_token_;  // [span]
  std::vector<std::uint32_t> order_;
};

// Sets `next` to the rows of `set` (null: of the whole batch) that are not among `ended`, which is
// ascending.
void remaining_rows(const DecoderBatch& batch, const RowSet* set, std::span<const std::uint32_t> ended,
                    RowSet& next);

}  // namespace troupe::kernels
