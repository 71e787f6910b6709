#pragma once
// What a forward pass on the CPU does for plans with a repair (base/repair.h): it adds up the attention that tokens of
// places receive, measures how far their keys and values are from their blocks', has tokens chosen, says which rows end
// there, and gives those that ended their blocks' keys and values, layer by layer. The layer loop asks at two moments:
// once a layer's keys and values are made, and after the first layer's attention.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/engine/decoder_attention.h"
#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/cpu/engine/decoder_kv.h"
#include "kernels/cpu/engine/decoder_rope.h"
#include "kernels/decoder/choose_tokens.h"
#include "kernels/decoder/decoder_batch.h"

namespace troupe::kernels {

class RepairPass {
 public:
  // Of the pass: `rows` are the angles of all its rows, `turns` those of its spans.
  RepairPass(const KvLayout& layout, LayerKv& kv, const RopeTable& rows, const RopeTable& turns)
      : layout_(layout), kv_(kv), rows_(rows), turns_(turns) {}

  void start(const DecoderBatch& batch);
  void give_back();  // all memory
  bool any() const { return batch_ != nullptr && !batch_->repairs.empty(); }

  // The first layer's attention: part i adds what its rows pay to mass(i), [tokens that its group sees, then the
  // group's]; null where they pay nothing. Rows of parts are rows of `set`, or of the batch where that is null.
  void make_room(const AttentionParts& parts, const RowSet* set);
  float* mass(std::size_t part) const;
  void add_up(const AttentionParts& parts);

  // The second layer's keys and values of one place, 0 to places() − 1, against its block's. From several threads.
  bool compares() const;
  void compare(std::uint32_t place, std::vector<KvRun>& runs);
  std::uint32_t places() const { return static_cast<std::uint32_t>(batch_->places.size()); }

  // Chooses where all is known by then, and adds the rows that end to `ended`, ascending within each repair.
  void choose_after_keys(std::uint32_t layer, std::vector<std::uint32_t>& ended);
  void choose_after_attention(std::vector<std::uint32_t>& ended);
  // What was chosen, for the reply to `repair`.
  void list_chosen(std::size_t repair, std::vector<std::uint32_t>& out) const;

  // In each layer: first the means of every (repair, head), then every place. From several threads.
  bool fills(std::uint32_t layer) const;
  std::size_t means() const { return batch_->repairs.size() * layout_.kv_heads; }
  void find_mean(std::size_t mean, std::uint32_t layer, std::vector<KvRun>& runs);
  void fill(std::uint32_t place, std::uint32_t layer, std::vector<KvRun>& runs);

 private:
  struct State {
    std::uint32_t first_place = 0, end_place = 0;
    std::uint32_t longest = 0;     // tokens of a place
    std::size_t sums = 0;          // into sums_, in floats
    bool chosen = false, ended = false;
    RepairTokens tokens;
  };
  struct Block;  // a head's keys and values of a place's block, one token after the other

  const Repair& repair(const State& state) const { return *batch_->repairs[&state - states_.data()].repair; }
  State& state_of(std::uint32_t place) { return states_[repair_of_[place]]; }
  void choose(State& state);
  void end_rows(const State& state, std::vector<std::uint32_t>& ended) const;
  float* sums(const State& state, std::uint32_t head) const;
  std::size_t sums_of_head(const State& state) const;

  const KvLayout layout_;
  LayerKv& kv_;
  const RopeTable &rows_, &turns_;
  const DecoderBatch* batch_ = nullptr;
  std::vector<State> states_;               // of the repairs; more from earlier passes
  std::vector<std::uint32_t> repair_of_, first_token_;  // of each place
  std::vector<std::size_t> room_;           // of each part: where its mass begins, in mass_
  std::vector<float> mass_, row_mass_;
  std::vector<float> sums_;  // [repair][head][budget][offset][key, value, both head_dim], then how many
  std::vector<std::uint32_t> order_;
};

}  // namespace troupe::kernels
