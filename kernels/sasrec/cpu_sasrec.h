#pragma once
// The executor of SASRec on the CPU. It shares plans, pages, teams, products and the partition of
// attention with the decoders; the layer is its own. Between two attentions rows are independent, so
// a layer has two regions of parallel work: chunks of rows, and parts of attention. In the last layer
// only rows with a readout go on after keys and values.
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/engine/decoder_attention.h"
#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/cpu/engine/decoder_kv.h"
#include "kernels/cpu/engine/decoder_rope.h"
#include "kernels/cpu/engine/item_search.h"
#include "kernels/cpu/engine/row_chunks.h"
#include "kernels/cpu/engine/team.h"
#include "kernels/cpu/products/linear.h"
#include "kernels/decoder/decoder_batch.h"
#include "kernels/operations/attend.h"
#include "kernels/operations/gate.h"
#include "kernels/operations/readout.h"
#include "kernels/sasrec/sasrec.h"

namespace troupe::kernels {

struct SasrecKernels {
  const Gates* gates;
  Attend* attend;
  const ProductVersion* product;
  ItemKernels items;
};

struct PackedSasrecLayer {
  Linear query, keys_values, output, fc1, fc2;
};

// Packed weights, immutable, shared by every executor of the process.
struct PackedSasrec {
  SasrecConfig config;
  Matrix items, positions;
  // null: `items` has the rows; otherwise each pass gathers its own rows
  std::shared_ptr<EmbeddingTable> table;
  std::vector<float> item_factors;  // [item]: of its product with a normed state
  std::vector<PackedSasrecLayer> layers;
  std::unique_ptr<NarrowItems> narrow = std::make_unique<NarrowItems>();

  ItemRows item_rows() const { return table ? ItemRows::apart : ItemRows::in_memory; }
};
PackedSasrec pack_sasrec(SasrecModel model, const Linear::Form& form);

// For tests: takes its kernels and teams explicitly.
std::unique_ptr<Executor> make_cpu_sasrec(SasrecModel model, const DecoderOptions& options,
                                          const SasrecKernels& kernels, Teams teams);

class CpuSasrec final : public Executor {
 public:
  CpuSasrec(std::shared_ptr<const PackedSasrec> weights, std::shared_ptr<const Teams> teams,
            std::shared_ptr<std::mutex> large, std::uint32_t executor, const DecoderOptions& options,
            const SasrecKernels& kernels);

  PlanLimits limits() const override { return plan_limits(c_, weights_->item_rows()); }
  std::string fault(const Plan& plan) const override { return plan_fault(c_, plan); }
  const PageLayout& layout() const override { return pages_; }
  using Executor::run;
  void run(std::span<const Request> requests, std::vector<Reply>& replies) override;
  void measure(PassTimes* times) override { times_ = times; }
  std::unique_ptr<Executor> share(std::uint32_t executor) const override {
    return std::make_unique<CpuSasrec>(weights_, teams_, large_, executor, options_, kernels_);
  }

 private:
  // Working memory of one thread of a pass.
  struct SasrecWorkspace {
    FloatBuffer inner;  // [rows of a chunk] × keys and values, or the feed-forward part
    AttendScratch attend;
    std::vector<KvRun> context, tail;
    PassTimes times;
  };
  std::string run_pass(std::span<const Request> requests, std::span<Reply> replies);
  std::string compute(std::span<const Request> requests, std::span<Reply> replies);
  void free_memory();
  void start(std::uint32_t workers);
  void gather_items();
  std::size_t end_of_alike(std::size_t first) const;
  template <class Work>
  void for_rows(Team::Pass& pass, Work&& work);
  void run_rows(Team::Pass& pass, std::uint32_t layer);
  void run_attention(Team::Pass& pass, std::uint32_t layer);
  void embed(Rows rows, SasrecWorkspace& w);
  void make_keys_values(const PackedSasrecLayer& layer, Rows rows, SasrecWorkspace& w);
  void make_queries(const PackedSasrecLayer& layer, Rows rows, SasrecWorkspace& w);
  void keep_read_rows();
  void attend_part(const AttentionPart& part, std::uint32_t layer, SasrecWorkspace& w);
  void finish_layer(const PackedSasrecLayer& layer, Rows rows, SasrecWorkspace& w);
  void norm_rows(Rows rows, SasrecWorkspace& w);
  void read(std::span<const Request> requests, std::span<Reply> replies);
  void read_items(std::size_t first, std::size_t end, std::span<Reply> replies);
  void norm_output(std::vector<float>& state) const;

  bool is_last(std::uint32_t layer) const { return layer + 1 == c_.layers; }
  float* state(std::size_t row) const { return state_.data() + row * c_.hidden; }
  double* timed(SasrecWorkspace& w, double PassTimes::*part) const {
    return times_ == nullptr ? nullptr : &(w.times.*part);
  }

  const std::shared_ptr<const PackedSasrec> weights_;
  const std::shared_ptr<const Teams> teams_;
  const std::shared_ptr<std::mutex> large_;  // held by the one pass whose memory is freed after it
  Team& team_;
  const SasrecConfig& c_;
  const DecoderOptions options_;
  const RowMemory memory_;
  const KvLayout layout_;
  const PageLayout pages_;
  const SasrecKernels kernels_;
  BatchPlanner planner_;
  LayerKv kv_;
  RopeTable no_turns_;
  ItemSearch search_;
  PassTimes* times_ = nullptr;

  // State of the current pass.
  const DecoderBatch* batch_ = nullptr;
  std::size_t rows_ = 0;  // rows still computed: all, then those with a readout
  std::size_t chunk_rows_ = 0;
  FloatBuffer state_, query_, mixed_;  // [rows] × hidden each
  AttentionParts all_rows_, read_rows_;
  // For a table that is apart: rows of `state_` behind those of the pass, one for each item that is
  // read out.
  std::vector<Token> gathered_;
  std::vector<std::size_t> gathered_at_;  // [readout]: row of its first item
  std::vector<std::vector<float>> read_states_;
  std::vector<const float*> readout_states_;
  std::vector<float*> readout_out_;
  Matrix read_items_;
  std::vector<Token> read_item_rows_;
  std::vector<SasrecWorkspace> workspaces_;  // [worker]
};

}  // namespace troupe::kernels
