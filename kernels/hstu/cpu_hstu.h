#pragma once
// The executor of HSTU on the CPU. It shares plans, pages, teams and the partition of attention
// with the decoders; the layer is its own. Between two attentions rows are independent, so a layer
// has two regions of parallel work: chunks of rows, and parts of attention. In the last layer only
// rows with a readout go on after keys and values.
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
#include "kernels/hstu/event_tokens.h"
#include "kernels/hstu/hstu.h"
#include "kernels/hstu/pair_bias.h"
#include "kernels/hstu/whole_softmax.h"
#include "kernels/operations/gate.h"
#include "kernels/operations/readout.h"
#include "kernels/operations/silu_attend.h"

namespace troupe::kernels {

struct HstuKernels {
  const Gates* gates;
  SiluAttend* attend;
  ReadoutRows* readout;
  const ProductVersion* product;
};

struct PackedHstuLayer {
  Linear uvqk, output;
  std::vector<float> position_weight, time_weight;
  std::vector<float> input_norm, input_norm_bias, output_norm, output_norm_bias;
};
// The task head: a norm, and linear layers with an activation between them.
struct PackedHead {
  std::vector<Linear> layers;
  HstuHeadActivation activation = HstuHeadActivation::silu;
};

// Packed weights, immutable, shared by every executor of the process.
struct PackedHstu {
  HstuConfig config;
  TimeBuckets buckets{1, 0};
  Matrix items, positions;
  Matrix further;  // rows of tokens behind the items: of contextual features, of actions
  Matrix actions;  // research: rows beside those of the items
  // null: `items` has the rows; otherwise each pass gathers its own rows
  std::shared_ptr<EmbeddingTable> table;
  std::vector<float> item_scales;  // [item]
  std::vector<PackedHstuLayer> layers;
  PackedHead head;
  std::unique_ptr<NarrowItems> narrow = std::make_unique<NarrowItems>();
};
PackedHstu pack_hstu(HstuModel model, const Linear::Form& form);
// Returns what an item's product with a state is multiplied by to give a next-item logit of a state of unit
// length: 1 / (length of the row × temperature).
float item_scale_of(const HstuConfig& config, const float* item);

// For tests: takes its kernels and teams explicitly.
std::unique_ptr<Executor> make_cpu_hstu(HstuModel model, const DecoderOptions& options,
                                        const HstuKernels& kernels, Teams teams);

class CpuHstu final : public Executor {
 public:
  CpuHstu(std::shared_ptr<const PackedHstu> weights, std::shared_ptr<const Teams> teams,
          std::shared_ptr<std::mutex> large, std::uint32_t executor, const DecoderOptions& options,
          const HstuKernels& kernels);

  PlanLimits limits() const override {
    return plan_limits(c_, weights_->table ? ItemRows::apart : ItemRows::in_memory);
  }
  std::string fault(const Plan& plan) const override { return plan_fault(c_, plan); }
  const PageLayout& layout() const override { return pages_; }
  using Executor::run;
  void run(std::span<const Request> requests, std::vector<Reply>& replies) override;
  void measure(PassTimes* times) override { times_ = times; }
  std::unique_ptr<Executor> share(std::uint32_t executor) const override {
    return std::make_unique<CpuHstu>(weights_, teams_, large_, executor, options_, kernels_);
  }

 private:
  // Working memory of one thread of a pass.
  struct HstuWorkspace {
    FloatBuffer normed;  // [rows of a chunk] × input of the output projection, or hidden
    AttendScratch attend;
    std::vector<KvRun> context, tail;
    std::vector<double> softmax;
    std::vector<std::int64_t> row_times;
    std::vector<std::int32_t> row_at;
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
  void embed(Rows rows, HstuWorkspace& w);
  void make_projections(const PackedHstuLayer& layer, Rows rows, HstuWorkspace& w);
  void keep_read_rows();
  void attend_part(const AttentionPart& part, std::uint32_t layer, HstuWorkspace& w);
  void attend_softmax(SiluAttendTask task, const AttentionPart& part, bool read, HstuWorkspace& w);
  void mix(const PackedHstuLayer& layer, Rows rows, HstuWorkspace& w);
  void add_output(const PackedHstuLayer& layer, Rows rows, HstuWorkspace& w);
  void read(std::span<const Request> requests, std::span<Reply> replies);
  void read_head(const BatchReadout& readout, std::vector<float>& out);
  void compute_head(const float* state);
  void norm_states(std::span<const BatchReadout> readouts);
  void norm_state(const float* from, float* to) const;
  void read_next_items(std::size_t first, std::size_t end, std::span<Reply> replies);
  float item_scale(const Matrix& items, Token row) const;

  bool is_last(std::uint32_t layer) const { return layer + 1 == c_.layers; }
  std::size_t uvqk_width() const { return c_.projected(); }
  const float* embedding(Token token) const;
  const float* state(std::size_t row) const { return state_.data() + row * c_.hidden; }
  double* timed(HstuWorkspace& w, double PassTimes::*part) const {
    return times_ == nullptr ? nullptr : &(w.times.*part);
  }

  const std::shared_ptr<const PackedHstu> weights_;
  const std::shared_ptr<const Teams> teams_;
  const std::shared_ptr<std::mutex> large_;  // held by the one pass whose memory is freed after it
  Team& team_;
  const HstuConfig& c_;
  const DecoderOptions options_;
  const HstuPassMemory memory_;
  const KvLayout layout_;
  const PageLayout pages_;
  const HstuKernels kernels_;
  EventTokens event_tokens_;
  BatchPlanner planner_;
  LayerKv kv_;
  RopeTable no_turns_;
  PassTimes* times_ = nullptr;

  // State of the current pass.
  const DecoderBatch* batch_ = nullptr;
  std::size_t rows_ = 0;  // rows still computed: all, then those with a readout
  std::size_t chunk_rows_ = 0;
  FloatBuffer state_, uvqk_, mixed_;  // [rows] × hidden, uvqk_width, width
  AttentionParts all_rows_, read_rows_;
  HstuBias bias_;
  ItemSearch search_;
  // For a table that is apart: rows of `state_` behind those of the pass, one for each item that is
  // read out; and these items as readouts name them.
  std::vector<Token> gathered_;
  std::vector<std::size_t> gathered_at_;  // [readout]: row of its first item
  Matrix read_items_;
  std::vector<Token> read_item_rows_;
  std::vector<float> normed_states_;  // [readout] × item_columns
  std::vector<const float*> readout_states_;
  std::vector<float*> readout_out_;
  std::uint32_t head_row_ = UINT32_MAX;  // whose task logits these are
  std::vector<float> head_in_, head_out_;
  std::vector<HstuWorkspace> workspaces_;  // [worker]
};

}  // namespace troupe::kernels
