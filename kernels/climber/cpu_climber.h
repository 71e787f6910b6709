#pragma once
// The executor of Climber on the CPU. A pass runs the rows of all towers through the layers
// together. A layer has two regions of work that idle cores share: chunks of rows (as in
// cpu/engine/decoder.cc, from one layer's mixed heads to the next layer's keys and values), and
// attention, by tower, head and block of rows. Towers do not wait for each other before they are
// fused.
#include <memory>
#include <span>
#include <vector>

#include "kernels/climber/climber.h"
#include "kernels/climber/climber_batch.h"
#include "kernels/climber/climber_weights.h"
#include "kernels/cpu/engine/decoder_kv.h"
#include "kernels/cpu/engine/decoder_workspace.h"
#include "kernels/cpu/engine/row_chunks.h"
#include "kernels/cpu/engine/team.h"
#include "kernels/cpu/products/product.h"
#include "kernels/operations/elementwise.h"
#include "kernels/operations/gate.h"

namespace troupe::kernels {

// For tests and benchmarks: vector kernels and a team given explicitly.
struct ClimberKernels {
  const Elementwise* elementwise;
  const Gates* gates;
  Attend* attend;
  const ProductVersion* product;
  // false: each operation of a layer runs over all rows of a tower before the next one begins, not over a
  // chunk of rows whose activations stay in the cache.
  bool by_chunks = true;
};
std::unique_ptr<Executor> make_cpu_climber(ClimberModel model, const DecoderOptions& options,
                                           const ClimberKernels& vector_kernels, std::shared_ptr<Team> team);

class CpuClimber final : public Executor {
 public:
  CpuClimber(std::shared_ptr<const PackedClimber> weights, std::shared_ptr<Team> team,
             const DecoderOptions& options, const ClimberKernels& vector_kernels);

  PlanLimits limits() const override { return plan_limits(c_); }
  std::string fault(const Plan& plan) const override { return validate(plan, c_); }
  const PageLayout& layout() const override { return pages_; }
  using Executor::run;
  void run(std::span<const Request> requests, std::vector<Reply>& replies) override;
  void measure(PassTimes* times) override { times_ = times; }
  std::unique_ptr<Executor> share(std::uint32_t) const override {
    return std::make_unique<CpuClimber>(weights_, team_, options_, vector_kernels_);
  }

 private:
  // Consecutive rows of one tower, all candidates or none.
  struct Chunk {
    std::uint32_t tower, begin, rows;
    bool candidates;
  };
  struct AttentionPart {
    const ClimberGroup* group;
    std::uint32_t head, row_begin, row_end;
  };

  std::string run_pass(std::span<const Request> requests, std::span<Reply> replies);
  void start(std::uint32_t workers);
  void cut_rows(std::uint32_t workers);
  void cut_attention(std::uint32_t workers);
  template <class Work>
  void timed(Workspace& w, double PassTimes::*part, Work&& work);
  void multiply(const Linear& linear, const float* in, float* out, std::size_t rows, bool add, Workspace& w);
  void norm(const float* in, const NormWeights& weights, float* out, std::size_t out_stride, std::size_t rows,
            Workspace& w);
  void gather_items();
  void run_rows(Team::Pass& pass, std::uint32_t layer);
  void embed(const Chunk& chunk, Workspace& w);
  void make_queries_keys_values(const Chunk& chunk, std::uint32_t layer, Workspace& w);
  void finish_layer(const Chunk& chunk, std::uint32_t layer, Workspace& w);
  void run_attention(Team::Pass& pass, std::uint32_t layer);
  void attend_part(const AttentionPart& part, std::uint32_t layer, Workspace& w);
  void finish_towers(Team::Pass& pass);
  void score(Team::Pass& pass);
  void score_candidates(std::size_t begin, std::size_t count, Workspace& w);
  void read(std::span<Reply> replies);
  bool is_last(std::uint32_t layer) const { return layer + 1 == c_.layers; }
  float* state(std::size_t row) { return state_.data() + row * c_.hidden; }

  const std::shared_ptr<const PackedClimber> weights_;
  const std::shared_ptr<Team> team_;
  const ClimberConfig& c_;
  const DecoderOptions options_;
  const ClimberPassMemory memory_;
  const KvLayout layout_;
  const PageLayout pages_;
  const ClimberKernels vector_kernels_;
  const Gates& gates_ = *vector_kernels_.gates;
  ClimberPlanner planner_;
  LayerKv kv_;
  const RopeTable key_rotations_;  // empty: positions are in the embeddings
  PassTimes* times_ = nullptr;

  // State of the current pass.
  const ClimberBatch* batch_ = nullptr;
  std::size_t chunk_rows_ = 0;  // rows of the largest chunk
  std::vector<Chunk> chunks_, candidate_chunks_;
  std::vector<AttentionPart> parts_;  // candidates' parts first
  std::size_t candidate_parts_ = 0;
  double pairs_ = 0, candidate_pairs_ = 0;  // visible (row, key) pairs of one head
  FloatBuffer state_, qkv_, mixed_;         // [rows] × hidden, 3 hidden, hidden
  FloatBuffer ends_, logits_;               // [candidates] × fused, tasks
  std::vector<Workspace> workspaces_;       // [worker]
};

}  // namespace troupe::kernels
