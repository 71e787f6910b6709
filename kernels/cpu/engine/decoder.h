#pragma once
// The executor of the decoders on the CPU: decoder.cc is a forward pass, decoder_search.cc beam
// searches.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/engine/cpu_decoder.h"
#include "kernels/cpu/engine/cpu_search_progress.h"
#include "kernels/cpu/engine/decoder_attention.h"
#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/cpu/engine/decoder_kv.h"
#include "kernels/cpu/engine/decoder_rope.h"
#include "kernels/cpu/engine/decoder_weights.h"
#include "kernels/cpu/engine/decoder_workspace.h"
#include "kernels/cpu/engine/pass_memory.h"
#include "kernels/cpu/engine/repair_pass.h"
#include "kernels/cpu/engine/row_chunks.h"
#include "kernels/cpu/engine/team.h"
#include "kernels/decoder/decoder_batch.h"

namespace troupe::kernels {

class CpuDecoder final : public Executor {
 public:
  CpuDecoder(std::shared_ptr<const PackedDecoder> weights, std::shared_ptr<const Teams> teams,
             std::shared_ptr<std::mutex> large, std::uint32_t executor, const DecoderOptions& options,
             const VectorKernels& vector_kernels)
      : weights_(std::move(weights)),
        teams_(std::move(teams)),
        large_(std::move(large)),
        team_(*(*teams_)[executor % teams_->size()]),
        c_(weights_->config),
        options_(options),
        memory_(pass_memory(c_, options)),
        layout_(kv_layout(c_, options.page_tokens, options.kv)),
        pages_(page_layout(layout_)),
        vector_kernels_(vector_kernels),
        planner_(c_, layout_),
        kv_(layout_),
        rope_(rope_frequencies(c_)),
        key_rotations_(rope_frequencies(c_)),
        some_rope_(rope_frequencies(c_)),
        repairs_(layout_, kv_, rope_, key_rotations_),
        workspaces_(team_.cores()) {}

  PlanLimits limits() const override { return plan_limits(c_); }
  const PageLayout& layout() const override { return pages_; }
  bool waits_by_layer() const override { return true; }
  using Executor::run;
  void run(std::span<const Request> requests, std::vector<Reply>& replies) override;
  void measure(PassTimes* times) override { times_ = times; }
  std::unique_ptr<Executor> share(std::uint32_t executor) const override {
    return std::make_unique<CpuDecoder>(weights_, teams_, large_, executor, options_, vector_kernels_);
  }

 private:
  // decoder.cc: one forward pass
  std::string run_pass(std::span<const Request> requests, std::span<Reply> replies);
  void compute(std::span<const Request> requests, std::span<Reply> replies);
  void run_layers(Team::Pass& pass, std::span<const Request> requests);
  void wait_for(std::span<const Request> requests, std::uint32_t layer) const;
  void free_memory();
  void start(const DecoderBatch& batch, std::uint32_t workers);
  void set_chunks(std::uint32_t workers);
  template <class Work>
  void for_rows(Team::Pass& pass, Work&& work);
  void multiply(const Linear& linear, const float* in, float* out, std::size_t rows, bool add, Workspace& w);
  void run_rows(Team::Pass& pass, std::uint32_t layer);
  void run_attention(Team::Pass& pass, std::uint32_t layer);
  Workspace& workspace(std::uint32_t worker);
  void embed(Rows rows, Workspace& w);
  void make_queries_keys_values(const PackedLayer& layer, Rows rows, Workspace& w);
  void store_keys_values(Rows rows, const float* keys);
  void attend_part(const AttentionPart& part, std::uint32_t layer, float* mass, Workspace& w);
  void add_attention(const PackedLayer& layer, Rows rows, Workspace& w);
  void add_feed_forward(const PackedLayer& layer, Rows rows, Workspace& w);
  void keep_read_rows();
  enum class KeptOutputs : std::uint8_t { queries, mixed };
  void keep_rows(const RowSet& set, KeptOutputs carried);
  void norm(const float* in, const std::vector<float>& weight, std::size_t rows, float* out);
  void finish_rows(Team::Pass& pass);
  void read(Team::Pass& pass, std::span<const Request> requests, std::span<Reply> replies);
  void read_rows(Team::Pass& pass, std::span<const Token> rows);

  // decoder_repair.cc: rows that end before the last layer
  void repair_keys(Team::Pass& pass, std::uint32_t layer);
  void repair_after_attention(Team::Pass& pass);
  void end_rows(Team::Pass& pass, KeptOutputs carried);
  void note_chosen(std::span<Reply> replies);

  // decoder_search.cc: beam searches, which take a pass for each level
  void run_with_searches(std::span<const Request> requests, std::span<Reply> replies);
  void run_searches(std::span<const Request> requests, std::span<Reply> replies);
  void too_large(std::span<const Request> requests, std::span<Reply> replies, std::size_t bytes);
  void prepare(std::size_t number, const Request& request, Request& begun, CpuSearchProgress& searching);
  void search(std::span<CpuSearchProgress* const> searches);
  void run_last_tokens(std::span<CpuSearchProgress* const> searches);
  void gather_states(std::span<CpuSearchProgress* const> searches);
  void run_level(Team::Pass& pass, std::span<CpuSearchProgress* const> searches);
  void read_level(Team::Pass& pass, std::span<CpuSearchProgress* const> searches);
  void plan_readout(std::span<CpuSearchProgress* const> searches);
  void add_job(std::size_t begin, bool over_vocabulary);
  void run_job(Team::Pass& pass, const ReadJob& job);
  void read_wanted(std::size_t row, Workspace& w);
  void read_part(const ReadJob& job, std::size_t part, Workspace& w);
  void multiply_output(const float* states, std::size_t rows, std::size_t first, Workspace& w);
  void keep_wanted(std::size_t row, std::span<const Token> tokens, const float* logits);

  std::size_t q_width() const { return widths_.mixed; }
  std::size_t kv_width() const { return (widths_.qkv - widths_.mixed) / 2; }
  std::size_t qkv_width() const { return widths_.qkv; }
  bool is_last(std::uint32_t layer) const { return layer + 1 == c_.layers; }
  double row_operations() const;  // linear-layer operations of one layer, per row
  double* timed(Workspace& w, double PassTimes::*part) const {
    return times_ == nullptr ? nullptr : &(w.times.*part);
  }

  const std::shared_ptr<const PackedDecoder> weights_;
  const std::shared_ptr<const Teams> teams_;  // [memory node]
  const std::shared_ptr<std::mutex> large_;   // held by the one pass whose memory is freed after it
  Team& team_;
  const DecoderConfig& c_;
  const RowWidths widths_ = row_widths(c_);
  const DecoderOptions options_;
  const PassMemory memory_;
  const KvLayout layout_;
  const PageLayout pages_;
  const VectorKernels vector_kernels_;
  const Elementwise& ops_ = *vector_kernels_.elementwise;
  BatchPlanner planner_;
  LayerKv kv_;
  RopeTable rope_, key_rotations_;  // angles of rows; of spans whose keys are rotated
  RopeTable some_rope_;             // of the remaining rows, once others have ended
  RepairPass repairs_;
  PassTimes* times_ = nullptr;

  // State of the current pass.
  const DecoderBatch* batch_ = nullptr;
  std::size_t rows_ = 0;         // rows still computed: all, then some of them, then those with a readout
  const RowSet* set_ = nullptr;  // the rows still computed; null: all
  RowSet some_[2];               // once rows have ended: the current set and the next
  std::vector<std::uint32_t> ended_;
  std::size_t chunk_rows_ = 0;
  Team::Pass* sharing_ = nullptr;    // set while few rows share products
  FloatBuffer state_, qkv_, mixed_;  // [rows] × hidden, qkv_width, q_width
  AttentionParts all_rows_, some_rows_, read_rows_;
  std::vector<const float*> readout_states_;
  std::vector<float*> readout_out_;
  std::vector<Workspace> workspaces_;  // [worker]

  // The current searches; their memory is reused.
  std::vector<std::unique_ptr<CpuSearchProgress>> searches_;
  std::vector<CpuSearchProgress*> active_searches_, live_;
  std::vector<Request> begun_;    // the requests of a batch, up to the start of their searches
  std::vector<BeamRows> levels_;  // of the current pass
  std::vector<BeamGroup> tails_;  // [group of the current pass]; empty if it has no beams
  SearchReadout search_readout_;
};

}  // namespace troupe::kernels
