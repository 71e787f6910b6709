#pragma once
// The CPU's part of plans with a repair (base/repair.h). It sums the attention that tokens of
// reused spans receive, measures how far their keys and values are from their blocks', lets
// decoder/repair_choices.h choose tokens, and gives the ended ones their blocks' keys and values,
// layer by layer.
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
  // `rows`: angles of all rows of the pass; `key_rotations`: angles of its spans' rotations.
  RepairPass(const KvLayout& layout, LayerKv& kv, const RopeTable& rows, const RopeTable& key_rotations)
      : layout_(layout), kv_(kv), rows_(rows), key_rotations_(key_rotations) {}

  void start(const DecoderBatch& batch);
  void free_memory();  // frees all memory
  bool any() const { return choices_.any(); }

  // First layer's attention. Part i adds the attention weights of its rows to mass(i), one number
  // per token that its group sees, then per token of the group; null: its rows do not count. Parts
  // have rows of `set`, or of the batch if it is null.
  void allocate_mass(const AttentionParts& parts, const RowSet* set);
  float* mass(std::size_t part) const;
  void sum_mass(const AttentionParts& parts);

  // Compares the second layer's keys and values of one span, 0 to reused_spans() − 1, with its block's.
  // Thread-safe.
  bool needs_divergence() const { return choices_.needs_divergence(); }
  void compare(std::uint32_t reused, std::vector<KvRun>& runs);
  std::uint32_t reused_spans() const { return choices_.reused_spans(); }

  // Forwarded from RepairChoices.
  void choose_after_keys(std::uint32_t layer, std::vector<std::uint32_t>& ended) {
    choices_.choose_after_keys(layer, ended);
  }
  void choose_after_attention(std::vector<std::uint32_t>& ended) {
    choices_.choose_after_attention(row_mass_, ended);
  }
  void list_chosen(std::size_t repair, std::vector<std::uint32_t>& out) const {
    choices_.list_chosen(repair, out);
  }

  // In each layer: first find_mean for every (repair, head), then fill for every span. Thread-safe.
  bool fills(std::uint32_t layer) const { return choices_.fills(layer); }
  std::size_t means() const { return batch_->repairs.size() * layout_.kv_heads; }
  void find_mean(std::size_t mean, std::uint32_t layer, std::vector<KvRun>& runs);
  void fill(std::uint32_t reused, std::uint32_t layer, std::vector<KvRun>& runs);

 private:
  struct Block;  // iterates over a head's keys and values of a span's block

  float* sums(std::size_t repair, std::uint32_t head) const;
  std::size_t sums_of_head(std::size_t repair) const;

  const KvLayout layout_;
  LayerKv& kv_;
  const RopeTable &rows_, &key_rotations_;
  const DecoderBatch* batch_ = nullptr;
  RepairChoices choices_;
  std::vector<std::size_t> sums_at_;     // [repair]: index into sums_
  std::vector<std::size_t> mass_begin_;  // [part]: begin of its mass in mass_
  std::vector<float> mass_, row_mass_;
  std::vector<float> sums_;  // [repair][head][budget][offset][key, value, both head_dim], then the counts
};

}  // namespace troupe::kernels
