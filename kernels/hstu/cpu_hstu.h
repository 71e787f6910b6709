#pragma once
// The executor of HSTU on the CPU. It shares passes with SASRec (cpu/engine/item_executor.h); the layer and
// the task head are its own.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/engine/item_executor.h"
#include "kernels/cpu/products/linear.h"
#include "kernels/hstu/event_tokens.h"
#include "kernels/hstu/hstu.h"
#include "kernels/hstu/pair_bias.h"
#include "kernels/hstu/whole_softmax.h"
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
  PackedItems items;
  Matrix positions;
  Matrix further;  // rows of tokens behind the items: of contextual features, of actions
  Matrix actions;  // research: rows beside those of the items
  std::vector<PackedHstuLayer> layers;
  PackedHead head;
};
PackedHstu pack_hstu(HstuModel model, const Linear::Form& form);

// For tests: takes its kernels and teams explicitly.
std::unique_ptr<Executor> make_cpu_hstu(HstuModel model, const DecoderOptions& options,
                                        const HstuKernels& kernels, Teams teams);

class CpuHstu final : public ItemExecutor {
 public:
  CpuHstu(std::shared_ptr<const PackedHstu> weights, SharedTeams shared, std::uint32_t executor,
          const DecoderOptions& options, const HstuKernels& kernels);

  PlanLimits limits() const override { return plan_limits(c_, weights_->items.where()); }
  std::string fault(const Plan& plan) const override { return plan_fault(c_, plan); }
  std::unique_ptr<Executor> share(std::uint32_t executor) const override {
    return std::make_unique<CpuHstu>(weights_, shared_, executor, options_, kernels_);
  }

 private:
  // Working memory of one thread for attention by softmax.
  struct SoftmaxScratch {
    std::vector<double> weights;
    std::vector<std::int64_t> row_times;
    std::vector<std::int32_t> row_at;
  };
  std::string plan_rows(std::span<const Request> requests) override;
  void run_layers(Team::Pass& pass) override;
  void free_memory() override;
  void read_head(const BatchReadout& readout, std::vector<float>& out) override;
  void run_rows(Team::Pass& pass, std::uint32_t layer);
  void embed(Rows rows, ItemWorkspace& w);
  void make_projections(const PackedHstuLayer& layer, Rows rows, ItemWorkspace& w);
  void attend_part(const AttentionPart& part, std::uint32_t layer, std::uint32_t worker);
  void attend_softmax(SiluAttendTask task, const AttentionPart& part, bool read, SoftmaxScratch& scratch);
  void mix(const PackedHstuLayer& layer, Rows rows, ItemWorkspace& w);
  void add_output(const PackedHstuLayer& layer, Rows rows, ItemWorkspace& w);
  void compute_head(const float* state);
  const float* embedding(Token token) const;

  const std::shared_ptr<const PackedHstu> weights_;
  const HstuConfig& c_;
  const std::size_t steps_max_;  // of one pass
  const HstuKernels kernels_;
  EventTokens event_tokens_;

  // State of the current pass.
  HstuBias bias_;
  std::uint32_t head_row_ = UINT32_MAX;  // whose task logits these are
  std::vector<float> head_in_, head_out_;
  std::vector<SoftmaxScratch> softmax_;  // [worker]
};

}  // namespace troupe::kernels
