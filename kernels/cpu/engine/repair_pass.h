#pragma once
// What a forward pass on the CPU does for plans with a repair (base/repair.h): it adds up the attention that
// tokens of places receive, measures how far their keys and values are from their blocks', has tokens chosen
// (decoder/repair_choices.h), and gives those that ended their blocks' keys and values, layer by layer.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/engine/decoder_attention.h"
#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/cpu/engine/decoder_kv.h"
#include "kernels/cpu/engine/decoder_rope.h"
#include "kernels/decoder/decoder_batch.h"
#include "kernels/decoder/repair_choices.h"

namespace troupe::kernels {

class RepairPass {
 public:
  // Of the pass: `rows` are the angles of all its rows, `turns` those of its spans.
  RepairPass(const KvLayout& layout, LayerKv& kv, const RopeTable& rows, const RopeTable& turns)
      : layout_(layout), kv_(kv), rows_(rows), turns_(turns) {}

  void start(const DecoderBatch& batch);
  void give_back();  // all memory
  bool any() const { return choices_.any(); }

  // The first layer's attention: part i adds what its rows pay to mass(i), [tokens that its group sees, then
  // the group's]; null where they pay nothing. Rows of parts are rows of `set`, or of the batch where that is
  // null.
  void make_room(const AttentionParts& parts, const RowSet* set);
  float* mass(std::size_t part) const;
  void add_up(const AttentionParts& parts);

  // The second layer's keys and values of one place, 0 to places() − 1, against its block's. From several
  // threads.
  bool compares() const { return choices_.compares(); }
  void compare(std::uint32_t place, std::vector<KvRun>& runs);
  std::uint32_t places() const { return choices_.places(); }

  // RepairChoices'.
  void choose_after_keys(std::uint32_t layer, std::vector<std::uint32_t>& ended) {
    choices_.choose_after_keys(layer, ended);
  }
  void choose_after_attention(std::vector<std::uint32_t>& ended) {
    choices_.choose_after_attention(row_mass_, ended);
  }
  void list_chosen(std::size_t repair, std::vector<std::uint32_t>& out) const {
    choices_.list_chosen(repair, out);
  }

  // In each layer: first the means of every (repair, head), then every place. From several threads.
  bool fills(std::uint32_t layer) const { return choices_.fills(layer); }
  std::size_t means() const { return batch_->repairs.size() * layout_.kv_heads; }
  void find_mean(std::size_t mean, std::uint32_t layer, std::vector<KvRun>& runs);
  void fill(std::uint32_t place, std::uint32_t layer, std::vector<KvRun>& runs);

 private:
  struct Block;  // a head's keys and values of a place's block, one token after the other

  float* sums(std::size_t repair, std::uint32_t head) const;
  std::size_t sums_of_head(std::size_t repair) const;

  const KvLayout layout_;
  LayerKv& kv_;
  const RopeTable &rows_, &turns_;
  const DecoderBatch* batch_ = nullptr;
  RepairChoices choices_;
  std::vector<std::size_t> sums_at_;  // of each repair: into sums_
  std::vector<std::size_t> room_;     // of each part: where its mass begins, in mass_
  std::vector<float> mass_, row_mass_;
  std::vector<float> sums_;  // [repair][head][budget][offset][key, value, both head_dim], then how many
};

}  // namespace troupe::kernels
